-- lost_jobs.sql: jobs in a lost node's hands. Index: none, job is read whole (see schema.sql), and only when a node is lost.
select id, fence, state, attempt, retries, crashes, cancel_requested, retry, terms
  from turnwise_job
 where node = ?1 and state in (1, 2)
