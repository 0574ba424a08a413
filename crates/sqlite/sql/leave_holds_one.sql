-- leave_holds_one.sql: whether a job is in a node's hands. Index: unique id.
select exists (select 1 from turnwise_job where id = ?1 and node = ?2 and state in (1, 2))
