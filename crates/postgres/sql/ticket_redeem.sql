-- ticket_redeem.sql: redeems the ticket $1 for the bearer $2, unless it was redeemed before or is over. Of several at once one does: the others
-- wait for its row, and see that it has a bearer. Locks: its row. Index: primary key.
update turnwise.ticket set bearer = $2, until = $3 where hash = $1 and bearer is null and until > turnwise.now()
