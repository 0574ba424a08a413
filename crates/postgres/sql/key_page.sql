-- key_page.sql: $3 unique keys after scope $1 and key $2, whether anything is left of their jobs, and the time.
-- Locks: none. Index: the primary keys of unique_key and job, history_pkey.
select k.scope, k.key, k.job, k.until_ended, k.expires,
       exists (select from turnwise.job where job.id = k.job)
       or exists (select from turnwise.history where history.id = k.job),
       turnwise.now()
  from turnwise.unique_key as k
 where (k.scope, k.key) > ($1::text, $2::text)
 order by k.scope, k.key
 limit $3
