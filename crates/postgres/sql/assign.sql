-- assign.sql: give picked jobs to nodes, if the caller still dispatches. A row that has changed since the pick is left alone and
-- absent from the reply; the caller reads it again. A row that another transaction has locked makes the whole statement fail
-- after the connection's lock timeout, with nothing changed: assign_skip.sql then leaves such rows out. Locking rows first, to skip
-- them here, cost 15.9 ms for a thousand jobs where this takes 11.2 (medians of twenty each, alternating, on a busy machine).
-- A node that has left gets nothing: no process would ever run a job assigned to it.
-- Locks: the dispatcher's row, shared (a take-over waits until this is committed); the nodes' rows, against leaving; the
-- job rows, in the order of the picks. Index: primary keys. The update names no indexed column and is HOT.
with lead as materialized (
    select 1 from turnwise.dispatcher where holder = $1 and epoch = $2 and lineage = turnwise.lineage() for share
), there as materialized (
    select incarnation from turnwise.node
     where incarnation = any ($6::uuid[]) and exists (select from lead)
     order by incarnation
       for key share
), taken as (
    update turnwise.job
       set state = 1, fence = job.fence + 1, node = pick.node, assigned_at = turnwise.now()
      from unnest($4::uuid[], $5::bigint[], $6::uuid[], $7::int[], $8::boolean[]) as pick (id, fence, node, rank, limited)
     where job.id between pick.id and pick.id and job.fence = pick.fence and job.state in (0, 3)
       and pick.node in (select incarnation from there)
    returning job.id, job.fence, job.node, job.state, job.attempt, job.retries, job.crashes, job.cancel_requested,
              job.submitted_at, job.priority, job.task, job.queue, job.grp, job.retry,
              case when job.node = $1 then job.args end as args,
              case when job.node = $1 then job.terms end as terms, pick.rank, pick.limited
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
       task, queue, grp, retry, args, terms
  from (values (true)) as always
  left join taken on true
