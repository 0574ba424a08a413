-- key_holders.sql: which job has the unique key ?1, in each scope, and whether that job is unfinished. A step for each scope, not for
-- each key: the primary key begins with the scope. Index: primary key; unique id of the job.
with recursive scopes (scope) as (
    select min(scope) from turnwise_unique_key
     union all
    select (select min(k.scope) from turnwise_unique_key k where k.scope > scopes.scope)
      from scopes
     where scopes.scope is not null
     limit 100000
)
select k.job, k.until_ended, k.expires, exists (select 1 from turnwise_job where id = k.job)
  from scopes cross join turnwise_unique_key k on k.scope = scopes.scope and k.key = ?1
