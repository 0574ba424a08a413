-- settle_discard_between.sql: as settle_discard.sql, for all jobs from one id to another. Index: unique id.
delete from turnwise_job
 where id between ?1 and ?2 and fence = ?3 and node = ?4 and state in (1, 2) and (?5 or not cancel_requested)
   and on_failure is null
