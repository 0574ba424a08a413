-- key_held.sql: the unique key of a job. Index: turnwise_unique_key_job.
select scope, key, job, until_ended, expires from turnwise_unique_key where job = ?1
