-- settle_stuck.sql: marks a job as stuck until its due time, or until a person decides. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 3, attempt = ?3, retries = ?4, crashes = ?5, fence = ?7,
       error = coalesce(?6, error), fingerprint = coalesce(?10, fingerprint),
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       expires_at = case when not ?11 then expires_at end,
       due_at = ?12, node = null, node_name = null
 where seq = ?1 and fence = ?2
