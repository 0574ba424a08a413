-- control_edit.sql: give jobs at rest another priority, due time or queue by a person's decision, each guarded by the state and fence
-- the person saw; what is null stays as it is. The new fence is higher, so a pick that is in flight is refused. A job that holds a
-- unique key in the scope that it would leave stays as it is, and is absent from the reply.
-- Locks: the job rows, in id order. Index: primary keys; of unique_key all keys of these scopes are read, once. The update is HOT.
with held as materialized (
    select job, scope from turnwise.unique_key
     where scope = any ($8::text[]) and job = any ($1::uuid[]) and (until_ended or expires > turnwise.now())
), edited as (
    update turnwise.job
       set fence = t.to_fence,
           priority = coalesce(t.to_priority, job.priority),
           due_at = coalesce(t.to_due, job.due_at),
           queue = coalesce(t.to_queue, job.queue)
      from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bigint[], $5::smallint[], $6::timestamptz[], $7::text[],
                  $8::text[])
           as t (id, fence, seen_state, to_fence, to_priority, to_due, to_queue, scope)
     where job.id between t.id and t.id and job.fence = t.fence and job.state = t.seen_state and job.state in (0, 3)
       and (t.scope is null or (t.id, t.scope) not in (select held.job, held.scope from held))
    returning job.id
), told as (
    insert into turnwise.change (jobs, ran)
    select array_agg(id), array_agg(null::bigint) from edited having count(*) > 0
), rung as materialized (
    select turnwise.ring() where exists (select from edited)
)
select edited.id from edited where (select count(*) from rung) >= 0
