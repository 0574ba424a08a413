-- control_stay.sql: move unfinished jobs by a person's decision, each guarded by the state and fence the person saw.
-- Locks: the job rows, in id order. Index: primary key.
with moved as (
    update turnwise.job
       set state = t.to_state,
           attempt = t.to_attempt,
           retries = t.to_retries,
           crashes = t.to_crashes,
           error = coalesce(t.to_error, job.error),
           fingerprint = coalesce(t.to_fingerprint, job.fingerprint),
           due_at = t.due,
           node = null,
           cancel_requested = job.cancel_requested and not t.clears_cancel
      from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::smallint[], $5::int[], $6::int[], $7::int[], $8::text[],
                  $9::text[], $10::timestamptz[], $11::boolean[])
           as t (id, fence, seen_state, to_state, to_attempt, to_retries, to_crashes, to_error, to_fingerprint, due, clears_cancel)
     where job.id between t.id and t.id and job.fence = t.fence and job.state = t.seen_state
    returning job.id
), told as (
    insert into turnwise.change (jobs, ran)
    select array_agg(id), array_agg(null::bigint) from moved having count(*) > 0
), rung as materialized (
    select turnwise.ring() where exists (select from moved)
)
select moved.id from moved where (select count(*) from rung) >= 0
