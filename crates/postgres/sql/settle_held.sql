-- settle_held.sql: which of the jobs $1, sorted, another transaction has locked now.
-- Locks: the others, until this statement is over. Index: primary key.
with free as materialized (
    select job.id
      from unnest($1::uuid[]) as t (id)
      join turnwise.job on job.id between t.id and t.id
       for update of job skip locked
)
select job.id
  from unnest($1::uuid[]) as t (id)
  join turnwise.job on job.id between t.id and t.id
 where job.id not in (select id from free)
