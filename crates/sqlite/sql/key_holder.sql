-- key_holder.sql: which job has a unique key, and whether that job is unfinished. Index: primary key; unique id of the job.
select job, until_ended, expires, exists (select 1 from turnwise_job where id = turnwise_unique_key.job)
  from turnwise_unique_key
 where scope = ?1 and key = ?2
