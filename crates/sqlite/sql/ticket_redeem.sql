-- ticket_redeem.sql: redeems the ticket ?1 for the bearer ?2, unless it was redeemed before or is over at ?4. Index: primary key.
update turnwise_ticket set bearer = ?2, until = ?3 where hash = ?1 and bearer is null and until > ?4
