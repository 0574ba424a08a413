-- leading_alone.sql: check that node $1 dispatches in epoch $2, and keep everything else that locks the dispatcher's row out
-- until the transaction ends: what the transaction reads in several statements is consistent.
-- Locks: the dispatcher's row. Index: none, it is one row.
select 1 from turnwise.dispatcher where holder = $1 and epoch = $2 and lineage = turnwise.lineage() for no key update
