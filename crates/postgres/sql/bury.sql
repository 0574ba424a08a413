-- bury.sql: remove a lost node and its assignments, once nothing is in its hands.
-- Locks: the node's row and its assignments. Index: primary keys; job is read whole (see leave.sql).
with held as materialized (
    select exists (select from turnwise.job where node = $1 and state in (1, 2)) as any
), unread as (
    delete from turnwise.assignment using held where not held.any and node = $1
)
delete from turnwise.node using held where not held.any and incarnation = $1
