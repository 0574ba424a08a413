-- watch_ended.sql: a finished job without what may be long. Index: primary key.
select id, task, queue, grp, state, attempt, node_name, submitted_at, started_at, finished_at, fingerprint
  from turnwise_history
 where id = ?1
