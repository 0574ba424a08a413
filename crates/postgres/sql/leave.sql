-- leave.sql: remove a node and its assignments, or mark it lost while jobs are in its hands.
-- Locks: the node's row and its assignments. Index: primary keys; job is read whole, since an index that names the
-- node would make every assignment a non-HOT update.
with held as materialized (
    select exists (select from turnwise.job where node = $1 and state in (1, 2)) as any
), lost as (
    update turnwise.node set lost = true from held where held.any and incarnation = $1
), gone as (
    delete from turnwise.node using held where not held.any and incarnation = $1
), unread as (
    delete from turnwise.assignment using held where not held.any and node = $1
)
select pg_notify('turnwise', 'lead') is null as rung
