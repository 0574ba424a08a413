-- assign_skip.sql: assign.sql for when another transaction holds some of the rows: those are skipped, and absent from the
-- reply like those that have changed since the pick.
-- Locks: as assign.sql, but job rows are locked first, skipping locked ones. Index: primary keys.
with lead as materialized (
    select 1 from turnwise.dispatcher where holder = $1 and epoch = $2 and lineage = turnwise.lineage() for share
), there as materialized (
    select incarnation from turnwise.node
     where incarnation = any ($6::uuid[]) and exists (select from lead)
     order by incarnation
       for key share
), picked as materialized (
    select job.id, pick.node, pick.rank, pick.limited
      from unnest($4::uuid[], $5::bigint[], $6::uuid[], $7::int[], $8::boolean[]) as pick (id, fence, node, rank, limited)
      join turnwise.job on job.id between pick.id and pick.id and job.fence = pick.fence and job.state in (0, 3)
     where pick.node in (select incarnation from there)
       for update of job skip locked
), taken as (
    update turnwise.job
       set state = 1, fence = job.fence + 1, node = picked.node, assigned_at = turnwise.now()
      from picked
     where job.id between picked.id and picked.id
    returning job.*, picked.rank, picked.limited
), delivered as (
    insert into turnwise.assignment (node, batch, jobs, limited)
    select node, $3, array_agg(id order by rank), array_agg(limited order by rank) from taken group by node
    on conflict (node, batch) do update
       set jobs = assignment.jobs || excluded.jobs, limited = assignment.limited || excluded.limited
), rung as materialized (
    select pg_notify('turnwise', 'mail:' || node) from (select distinct node from taken where node <> $1) as others
)
select exists (select from lead) and (select count(*) from rung) >= 0 as leading,
       rank, state, attempt, retries, crashes, cancel_requested, submitted_at, priority,
       mine.task, mine.queue, mine.grp, mine.retry, mine.args, mine.terms
  from (values (true)) as always
  left join taken on true
  left join lateral (
       select taken.task, taken.queue, taken.grp, taken.retry, taken.args, taken.terms where taken.node = $1
  ) as mine on true
