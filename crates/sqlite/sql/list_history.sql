-- list_history.sql: finished jobs from this id down; the caller stops where it has enough. Index: primary key, backwards.
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history
 where id <= ?1
 order by id desc
