-- job.sql: one job, finished or not. Index: unique id, primary key of history.
select j.id, j.task, j.args, j.queue, j.grp, j.priority, j.retry, j.state, j.attempt, j.retries, j.crashes, j.fence,
       j.cancel_requested, coalesce(n.name, j.node_name), j.result, j.error, j.submitted_at, j.due_at, j.assigned_at,
       j.started_at, j.finished_at, j.key, j.terms, j.fingerprint, j.expires_at
  from turnwise_job j left join turnwise_node n on n.incarnation = j.node
 where j.id = ?1
union all
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history
 where id = ?1
