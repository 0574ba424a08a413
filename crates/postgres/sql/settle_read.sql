-- settle_read.sql: what named jobs are now, finished ones included. Locks: nothing. Index: primary keys.
select id, state, fence, node, cancel_requested, started_at from turnwise.job where id = any ($1::uuid[])
 union all
select id, state, fence, null, cancel_requested, started_at from turnwise.history where id = any ($1::uuid[])
