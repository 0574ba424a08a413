-- totals_write.sql: write the totals $3, if node $1 dispatches in epoch $2; return whether it does, and until when they are asked for.
-- A dispatcher whose lead ends at this moment may still write: the next one writes within a second, and nothing decides by it.
-- Locks: the one row. Index: none, it is one row.
with leads as materialized (
    select 1 from turnwise.dispatcher where holder = $1 and epoch = $2 and lineage = turnwise.lineage()
), written as (
    update turnwise.totals set written_at = turnwise.now(), value = $3 where exists (select from leads)
    returning asked_until
)
select exists (select from leads) as leads, (select asked_until from written where asked_until > turnwise.now()) as asked_until
