-- assign_picked_between.sql: as assign_picked.sql, from one id to another. The caller stops where too many are not among its picks.
-- Index: unique id.
select id, fence, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, cancel_requested,
       submitted_at, terms, seq, node
  from turnwise_job
 where id between ?1 and ?2
 order by id
