-- list_failed.sql: failed jobs with an error of this kind, from this id down. Index: turnwise_history_fingerprint, backwards.
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history indexed by turnwise_history_fingerprint
 where fingerprint = ?2 and state = 5 and id <= ?1
 order by id desc
