-- job.sql: one job, finished or not, its unique key, and the time. Locks: nothing. Index: primary keys, unique_key_job.
select found.*, k.scope, k.key as unique_key, k.job, k.until_ended, k.expires, turnwise.now()
  from (
       select job.id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
              node.name as node_name, null::json as result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
              key, terms, fingerprint, expires_at
         from turnwise.job
         left join turnwise.node on node.incarnation = job.node
        where job.id = $1
        union all
       select id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
              node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
              key, terms, fingerprint, expires_at
         from turnwise.history
        where id = $1
        limit 1
  ) as found
  left join turnwise.unique_key as k on k.job = $1
 limit 1
