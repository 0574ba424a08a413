-- settle_next.sql: puts a job back to waiting, to go on with another step: as settle_again.sql, with what the step brings.
-- forget_steps.sql deletes the results of the last task's steps, in the same transaction. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 0, attempt = ?3, retries = ?4, crashes = ?5, fence = ?7,
       error = coalesce(?6, error), fingerprint = coalesce(?10, fingerprint),
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       expires_at = case when not ?11 then expires_at end,
       due_at = ?12, result = null, cancel_requested = cancel_requested and not ?13, node = null, node_name = null,
       task = ?14, args = ?15, retry = ?16, terms = ?17
 where seq = ?1 and fence = ?2
