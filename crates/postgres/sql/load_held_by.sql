-- load_held_by.sql: jobs in the hands of the node $1, including those that none of its assignments names.
-- Locks: nothing. Index: none, job is read whole (see leave.sql).
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end,
       clock.now
  from (select turnwise.now() as now) as clock
  left join turnwise.job on node = $1 and state in (1, 2)
