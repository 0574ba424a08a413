-- held.sql: jobs in a node's hands, in id order. Index: turnwise_job_node.
select id, fence, state, attempt, retries, crashes, cancel_requested
  from turnwise_job
 where node = ?1 and state in (1, 2)
 order by id
 limit ?2
