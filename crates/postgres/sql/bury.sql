-- bury.sql: remove a lost node, its assignments and requests to stop, once nothing is in its hands.
-- Locks: the node's row, its assignments and requests. Index: primary keys; job is read whole (see leave.sql).
with held as materialized (
    select exists (select from turnwise.job where node = $1 and state in (1, 2)) as any
), unread as (
    delete from turnwise.assignment using held where not held.any and node = $1
), unstopped as (
    delete from turnwise.stop_request using held where not held.any and node = $1
)
delete from turnwise.node using held where not held.any and incarnation = $1
