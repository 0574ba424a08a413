-- key_held.sql: the unique keys of the jobs $1, and the time. Locks: none. Index: unique_key_job.
select k.scope, k.key, k.job, k.until_ended, k.expires, turnwise.now()
  from turnwise.unique_key as k
 where k.job = any ($1::uuid[])
