-- key_holders.sql: which job has the unique key $1, in each scope, whether that job is unfinished, and the time. A step for each
-- scope, not for each key: the primary key begins with the scope. Locks: none. Index: the primary keys of unique_key and job.
with recursive scopes (scope) as (
    (select scope from turnwise.unique_key order by scope limit 1)
     union all
    select (select k.scope from turnwise.unique_key as k where k.scope > scopes.scope order by k.scope limit 1)
      from scopes
     where scopes.scope is not null
)
select k.job, k.until_ended, k.expires, exists (select from turnwise.job where job.id = k.job), turnwise.now()
  from (select scope from scopes where scope is not null limit 100000) as scopes
 cross join lateral (select * from turnwise.unique_key where unique_key.scope = scopes.scope and unique_key.key = $1 offset 0) as k
