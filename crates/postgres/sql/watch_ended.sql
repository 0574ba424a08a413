-- watch_ended.sql: these finished jobs, without what may be long. They ended after $2, so that only the latest slices are looked at.
-- Locks: nothing. Index: history_pkey.
select id, task, queue, grp, state, attempt, node_name, submitted_at, started_at, finished_at, fingerprint
  from turnwise.history
 where id = any ($1::uuid[]) and ended_at >= $2
