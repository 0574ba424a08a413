-- load_one.sql: one unfinished job as the scheduler sees it. Index: unique id.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, octet_length(args)
  from turnwise_job
 where id = ?1
