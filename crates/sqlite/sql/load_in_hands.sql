-- load_in_hands.sql: one job as the scheduler sees it, if it is in this node's hands. Index: unique id.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, octet_length(args)
  from turnwise_job
 where id = ?1 and node = ?2 and state in (1, 2)
