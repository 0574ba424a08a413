-- assignments_job.sql: one job, if it is in this node's hands. Index: unique id.
select id, fence, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, cancel_requested,
       submitted_at, terms
  from turnwise_job
 where id = ?1 and node = ?2 and state in (1, 2)
