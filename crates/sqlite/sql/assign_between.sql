-- assign_between.sql: as assign.sql, for jobs whose numbers are known and follow one another. `or fail`: no copies of pages, since
-- a failure rolls back the whole request. Index: primary key.
update or fail turnwise_job
   set state = 1, fence = fence + 1, node = ?4, assigned_at = ?5
 where seq between ?1 and ?2 and fence = ?3 and state not in (1, 2)
