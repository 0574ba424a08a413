-- control_edit.sql: gives a job at rest another priority, due time or queue; what is null stays as it is. The fence ?3 is higher than
-- the one it has, so a pick of it that is in flight is refused. Guard: the fence. Index: primary key.
update turnwise_job
   set fence = ?3, priority = coalesce(?4, priority), due_at = coalesce(?5, due_at), queue = coalesce(?6, queue)
 where seq = ?1 and fence = ?2
