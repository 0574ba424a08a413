-- leading_alone.sql: check who dispatches, and do nothing else beside it until the transaction ends: what it reads in several
-- statements is as one look. Locks: the dispatcher's row. Index: none, it is one row.
select 1 from turnwise.dispatcher where holder = $1 and epoch = $2 and lineage = turnwise.lineage() for no key update
