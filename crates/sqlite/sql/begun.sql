-- begun.sql: what tells whether an unfinished job has begun. Index: unique id of the job.
select state, started_at is not null, crashes from turnwise_job where id = ?1
