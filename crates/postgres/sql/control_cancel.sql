-- control_cancel.sql: ask for assigned jobs to be stopped, each guarded by the state and fence the person saw; the node that has the
-- job reads the request with its mail.
-- Locks: the job rows, in id order; the requests. Index: primary keys.
with asked as (
    update turnwise.job
       set cancel_requested = true
      from unnest($1::uuid[], $2::bigint[], $3::smallint[]) as t (id, fence, seen_state)
     where job.id between t.id and t.id and job.fence = t.fence and job.state = t.seen_state
       and job.state in (1, 2) and job.node is not null
    returning job.id, job.node, job.fence
), requested as (
    insert into turnwise.stop_request (node, job, fence)
    select node, id, fence from asked order by id
    on conflict (node, job) do update set fence = excluded.fence
), rung as materialized (
    select pg_notify('turnwise', 'mail:' || node) from (select distinct node from asked) as nodes
)
select asked.id from asked where (select count(*) from rung) >= 0
