-- key_known.sql: whether a job is there, finished or not. Index: unique id of the job, primary key of history.
select exists (select 1 from turnwise_job where id = ?1) or exists (select 1 from turnwise_history where id = ?1)
