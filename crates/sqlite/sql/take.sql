-- take.sql: as assign.sql, for a job whose number is known. Index: primary key.
update turnwise_job
   set state = 1, fence = fence + 1, node = ?3, assigned_at = ?4
 where seq = ?1 and fence = ?2 and state not in (1, 2)
