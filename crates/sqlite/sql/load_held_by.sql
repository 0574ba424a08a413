-- load_held_by.sql: jobs in this node's hands as the scheduler sees them, by id.
-- Index: unique id, for the order; all jobs are read.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, octet_length(args)
  from turnwise_job
 where node = ?1 and state in (1, 2)
 order by id
