-- start.sql: a job that is being run. It stays in its node's hands. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 2, attempt = ?3, retries = ?4, crashes = ?5, error = coalesce(?6, error), fence = ?7,
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       node_name = coalesce(?10, node_name)
 where seq = ?1 and fence = ?2
