-- list_group.sql: unfinished jobs of this group from this id down; the caller stops where it has enough. Index: turnwise_job_group,
-- backwards.
select j.id as id, j.task, j.args, j.queue, j.grp, j.priority, j.retry, j.state, j.attempt, j.retries, j.crashes, j.fence,
       j.cancel_requested, coalesce(n.name, j.node_name), j.result, j.error, j.submitted_at, j.due_at, j.assigned_at,
       j.started_at, j.finished_at, j.key, j.terms, j.fingerprint, j.expires_at
  from turnwise_job j indexed by turnwise_job_group left join turnwise_node n on n.incarnation = j.node
 where j.grp = ?2 and j.id <= ?1
 order by j.id desc
