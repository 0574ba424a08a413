-- leave_holds.sql: whether anything is in a node's hands. Index: none, job is read whole (see schema.sql), and only when a node is
-- about to be forgotten and its batches name no job of its.
select exists (select 1 from turnwise_job where node = ?1 and state in (1, 2))
