-- assign_picked.sql: one job that is to be given to the asking node, with its number and the node that has it. Index: unique id.
select id, fence, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, cancel_requested,
       submitted_at, terms, seq, node
  from turnwise_job
 where id = ?1
