-- tickets_over.sql: deletes tickets and bearers that are over; those that another transaction deletes or redeems are left to it. Locks: these
-- rows, in the order of their hashes. Index: none, there are few.
with over as materialized (
    select hash from turnwise.ticket where until <= turnwise.now() order by hash for update skip locked
)
delete from turnwise.ticket using over where ticket.hash = over.hash
