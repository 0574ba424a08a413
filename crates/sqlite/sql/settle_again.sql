-- settle_again.sql: puts a job back to waiting; its result and its node are cleared. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 0, attempt = ?3, retries = ?4, crashes = ?5, fence = ?7,
       error = coalesce(?6, error), fingerprint = coalesce(?10, fingerprint),
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       expires_at = case when not ?11 then expires_at end,
       due_at = ?12, result = null, cancel_requested = cancel_requested and not ?13, node = null, node_name = null
 where seq = ?1 and fence = ?2
