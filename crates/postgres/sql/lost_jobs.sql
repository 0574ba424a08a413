-- lost_jobs.sql: jobs in the hands of lost nodes, node by node.
-- Locks: nothing. Index: job is read whole (see leave.sql), and only when a node is lost.
select node, id, fence, state, attempt, retries, crashes, cancel_requested, retry, terms
  from turnwise.job
 where node = any ($1::uuid[]) and state in (1, 2)
 order by node, id
 limit $2
