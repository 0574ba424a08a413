-- in_hands.sql: one job with how far it has come, if it is in this node's hands. Index: unique id; primary key of progress.
select turnwise_job.id, task, queue, grp, state, attempt, submitted_at, started_at, fence, done, total, text
  from turnwise_job
  left join turnwise_progress on turnwise_progress.job = turnwise_job.id
 where turnwise_job.id = ?1 and node = ?2 and state in (1, 2)
