-- control_again.sql: bring finished jobs back by a person's decision, each guarded by the state and fence the person saw.
-- They are news: a new number and a new transaction. 'over': it is known which jobs it waited for, and that it no longer does.
-- Locks: the history rows, in id order; the new job rows. Index: primary keys.
with back as (
    delete from turnwise.history
     using unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::smallint[], $5::int[], $6::int[], $7::int[], $8::text[],
                  $9::text[], $10::timestamptz[], $11::boolean[], $12::boolean[], $13::boolean[])
           as t (id, fence, seen_state, to_state, to_attempt, to_retries, to_crashes, to_error, to_fingerprint, due,
                 clears_cancel, clears_expiry, clears_dependencies)
     where history.id between t.id and t.id and history.fence = t.fence and history.state = t.seen_state
    returning history.*, t.to_state, t.to_attempt, t.to_retries, t.to_crashes, t.to_error,
              t.to_fingerprint, t.due, t.clears_cancel, t.clears_expiry, t.clears_dependencies
), stored as (
    insert into turnwise.job (
           id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested, error,
           submitted_at, due_at, assigned_at, started_at, finished_at, key, terms, expires_at, fingerprint,
           on_failure)
    select id, task, queue, grp, priority, args, retry, to_state, to_attempt, to_retries, to_crashes, fence,
           cancel_requested and not clears_cancel, coalesce(to_error, error), submitted_at, due, assigned_at, started_at,
           finished_at, key, terms, case when not clears_expiry then expires_at end,
           coalesce(to_fingerprint, fingerprint),
           case when clears_dependencies
                     and exists (select from turnwise.dependency where dependency.job = back.id offset 0) then 'over' end
      from back
     order by id
    returning id
), told as (
    insert into turnwise.change (jobs, ran)
    select array_agg(id), array_agg(null::bigint) from stored having count(*) > 0
), rung as materialized (
    select turnwise.ring() where exists (select from stored)
)
select stored.id from stored where (select count(*) from rung) >= 0
