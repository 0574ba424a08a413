-- logins_over.sql: deletes log-ins that are over; those that another transaction deletes are left to it. Locks: these rows, in the order of
-- their hashes. Index: none, there are few.
with over as materialized (
    select hash from turnwise.login where until <= turnwise.now() order by hash for update skip locked
)
delete from turnwise.login using over where login.hash = over.hash
