-- stick.sql: a job that is stuck until its due time, or until a person decides. Guard: the fence. Index: primary key.
update turnwise_job
   set state = 3, attempt = ?3, retries = ?4, crashes = ?5, error = coalesce(?6, error), fence = ?7,
       started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at),
       due_at = ?10, node = null, node_name = null
 where seq = ?1 and fence = ?2
