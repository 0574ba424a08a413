-- key_begun.sql: what shows whether an unfinished job has begun, and whether it is of task ?2. Index: unique id of the job.
select state, started_at is not null, crashes, task = ?2 from turnwise_job where id = ?1
