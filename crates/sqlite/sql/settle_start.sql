-- settle_start.sql: marks a job as running. It stays in its node's hands. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 2, attempt = ?3, retries = ?4, crashes = ?5, fence = ?7,
       error = coalesce(?6, error), fingerprint = coalesce(?10, fingerprint),
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       expires_at = case when not ?11 then expires_at end,
       node_name = coalesce(?12, node_name)
 where seq = ?1 and fence = ?2
