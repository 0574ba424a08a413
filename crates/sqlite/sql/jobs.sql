-- jobs.sql: jobs, finished ones included, newest id first. ?1 has one bit per wanted state; a condition that is null
-- holds for every job; a table that can have none of them (15: unfinished, 112: finished) is not read. ?6 and ?7 bound the time of the submit, ?8 and ?9 the ids. Index: unique id and primary key of history,
-- merged backwards, so that nothing is sorted.
select j.id as id, j.task, j.args, j.queue, j.grp, j.priority, j.retry, j.state, j.attempt, j.retries, j.crashes, j.fence,
       j.cancel_requested, coalesce(n.name, j.node_name), j.result, j.error, j.submitted_at, j.due_at, j.assigned_at,
       j.started_at, j.finished_at, j.key, j.terms, j.fingerprint, j.expires_at
  from turnwise_job j left join turnwise_node n on n.incarnation = j.node
 where ?1 & 15 and (?1 >> j.state) & 1 and (?2 is null or j.queue = ?2) and (?3 is null or j.grp = ?3) and (?4 is null or j.task = ?4)
   and (?6 is null or j.submitted_at >= ?6) and (?7 is null or j.submitted_at < ?7) and j.id between ?8 and ?9
union all
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at,
       started_at, finished_at, key, terms, fingerprint, expires_at
  from turnwise_history
 where ?1 & 112 and (?1 >> state) & 1 and (?2 is null or queue = ?2) and (?3 is null or grp = ?3) and (?4 is null or task = ?4)
   and (?6 is null or submitted_at >= ?6) and (?7 is null or submitted_at < ?7) and id between ?8 and ?9
 order by id desc
 limit ?5
