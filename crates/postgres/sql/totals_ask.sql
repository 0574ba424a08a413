-- totals_ask.sql: note that totals are asked for, for $1 microseconds from now, if less than $2 are left of the last question; ring
-- the dispatcher if no other caller asked before; return the time, and what was written last and when.
-- Locks: the one row, only if the question is written. Index: none, it is one row.
with was as materialized (
    select asked_until from turnwise.totals
), asked as (
    update turnwise.totals
       set asked_until = turnwise.now() + $1::bigint * interval '1 microsecond'
     where asked_until < turnwise.now() + $2::bigint * interval '1 microsecond'
    returning 1
), rung as materialized (
    select pg_notify('turnwise', 'news') from was where asked_until <= turnwise.now() and exists (select from asked)
)
select turnwise.now() as now, written_at, value, (select count(*) from rung) as rang from turnwise.totals
