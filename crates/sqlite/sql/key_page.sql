-- key_page.sql: unique keys after this one, and whether anything is left of their jobs. Index: primary keys; unique id of
-- the job.
select scope, key, job, until_ended, expires,
       exists (select 1 from turnwise_job where id = turnwise_unique_key.job)
       or exists (select 1 from turnwise_history where id = turnwise_unique_key.job)
  from turnwise_unique_key
 where (scope, key) > (?1, ?2)
 order by scope, key
 limit ?3
