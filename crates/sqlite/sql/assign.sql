-- assign.sql: gives one job to a node, if it still is at the fence it was picked at, and at rest. Nothing is returned:
-- with `returning`, SQLite would copy every page, to be able to undo the update. Index: unique id.
update turnwise_job
   set state = 1, fence = fence + 1, node = ?3, assigned_at = ?4
 where id = ?1 and fence = ?2 and state not in (1, 2)
