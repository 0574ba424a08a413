-- settle_next.sql: a job that waits to go on with another step: as settle_again.sql, with what the step brings. forget_steps.sql takes
-- away what the last one's steps came to, in the same transaction. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 0, attempt = ?3, retries = ?4, crashes = ?5, fence = ?7,
       error = coalesce(?6, error), fingerprint = coalesce(?10, fingerprint),
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       expires_at = case when ?8 is null then expires_at end,
       due_at = ?11, result = null, cancel_requested = 0, node = null, node_name = null,
       task = ?12, args = ?13, retry = ?14, terms = ?15
 where seq = ?1 and fence = ?2
