-- leading.sql: check that node $1 dispatches in epoch $2, and keep it so until the transaction ends.
-- Locks: the dispatcher's row, shared: a take-over waits. Index: none, it is one row.
select 1 from turnwise.dispatcher where holder = $1 and epoch = $2 and lineage = turnwise.lineage() for share
