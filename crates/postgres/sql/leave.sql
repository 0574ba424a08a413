-- leave.sql: remove a node, its assignments and requests to stop, unless jobs are in its hands; returns whether it is gone.
-- Locks: the node's row, its assignments and requests. Index: primary keys; job is read whole, since an index that names the
-- node would make every assignment a non-HOT update.
with held as materialized (
    select exists (select from turnwise.job where node = $1 and state in (1, 2)) as any
), gone as (
    delete from turnwise.node using held where not held.any and incarnation = $1
), unread as (
    delete from turnwise.assignment using held where not held.any and node = $1
), unstopped as (
    delete from turnwise.stop_request using held where not held.any and node = $1
), rung as materialized (
    select pg_notify('turnwise', 'lead')
)
select not held.any as gone from held where (select count(*) from rung) >= 0
