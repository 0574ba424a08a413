-- enqueue_after.sql: jobs that enqueue.sql has just stored wait for others, in the same transaction.
-- Binds: $1 uuid[] those that wait, $2 uuid[] for whom: pairs; $3 uuid[] those that wait, each once, $4 text[] what becomes of
-- each if another one fails, $5 uuid[] those that need not be there. One that is to wait for a job that is not there fails the statement with TW001.
-- Locks: the new rows only. Index: the primary keys of job and history.
with pair as materialized (
    select t.job, t.awaits from unnest($1::uuid[], $2::uuid[]) as t (job, awaits)
), missing as materialized (
    select turnwise.refuse(first.sentence)
      from (
           select 'after: there is no job ' || pair.awaits as sentence
             from pair
            where pair.awaits <> all ($5::uuid[])
              and not exists (select from turnwise.job where job.id = pair.awaits offset 0)
              and not exists (select from turnwise.history where history.id = pair.awaits offset 0)
            order by pair.awaits
            limit 1
      ) as first
), waits as materialized (
    select t.id, t.on_failure from unnest($3::uuid[], $4::text[]) as t (id, on_failure)
), stored as (
    insert into turnwise.dependency (job, awaits, on_failure)
    select pair.job, pair.awaits, waits.on_failure
      from pair
      join waits on waits.id = pair.job
     where (select count(*) from missing) >= 0
)
update turnwise.job
   set on_failure = waits.on_failure
  from waits
 where job.id between waits.id and waits.id
