-- enqueue_after.sql: jobs that enqueue.sql has just stored wait for others, in the same transaction.
-- Binds: $1 uuid[] jobs that wait, $2 uuid[] the jobs they wait for: pairs; $3 uuid[] jobs that wait, each once, $4 text[] what
-- becomes of each if a job it waits for fails, $5 uuid[] awaited jobs that need not exist. A job that is to wait for a job that
-- does not exist fails the statement with TW001.
-- Runs in callers' transactions too: every name is qualified, whatever their search_path finds.
-- Locks: the new rows only. Index: the primary keys of job and history.
with pair as materialized (
    select t.job, t.awaits
      from rows from (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]))
           as t (job, awaits)
), missing as materialized (
    select turnwise.refuse(first.sentence)
      from (
           select 'after: there is no job ' operator(pg_catalog.||) pair.awaits::pg_catalog.text as sentence
             from pair
            where pair.awaits operator(pg_catalog.<>) all ($5::pg_catalog.uuid[])
              and not exists (select from turnwise.job where job.id operator(pg_catalog.=) pair.awaits offset 0)
              and not exists (select from turnwise.history where history.id operator(pg_catalog.=) pair.awaits offset 0)
            order by pair.awaits
            limit 1
      ) as first
), waits as materialized (
    select t.id, t.on_failure
      from rows from (pg_catalog.unnest($3::pg_catalog.uuid[]), pg_catalog.unnest($4::pg_catalog.text[]))
           as t (id, on_failure)
), stored as (
    insert into turnwise.dependency (job, awaits, on_failure)
    select pair.job, pair.awaits, waits.on_failure
      from pair
      join waits on waits.id operator(pg_catalog.=) pair.job
     where (select pg_catalog.count(*) from missing) operator(pg_catalog.>=) 0
)
update turnwise.job
   set on_failure = waits.on_failure
  from waits
 where job.id operator(pg_catalog.>=) waits.id and job.id operator(pg_catalog.<=) waits.id
