-- list_group_history.sql: finished jobs of this group and these states (?3 to ?5; null: none) from this id down; the caller stops where it
-- has enough. Index: turnwise_history_group, backwards, a search for each state; their rows are merged by id and never sorted.
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history indexed by turnwise_history_group
 where grp = ?2 and state = ?3 and id <= ?1
union all
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history indexed by turnwise_history_group
 where grp = ?2 and state = ?4 and id <= ?1
union all
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history indexed by turnwise_history_group
 where grp = ?2 and state = ?5 and id <= ?1
 order by id desc
