-- control_free.sql: which of the jobs $1 no open transaction has locked now. Locks: those rows, for a moment.
-- Index: primary key, history_pkey.
with unfinished as materialized (
    select id from turnwise.job where id = any ($1::uuid[]) for update skip locked
), finished as materialized (
    select id from turnwise.history where id = any ($1::uuid[]) for update skip locked
)
select id from unfinished union all select id from finished
