-- in_hands.sql: jobs in a node's hands as the scheduler sees them. Index: turnwise_job_node.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure
  from turnwise_job
 where node = ?1 and state in (1, 2)
