-- settle_next.sql: settle_stay.sql for jobs that go on with another step: they wait, with that step's task, arguments,
-- retries and terms, and without the results of the last task's steps. Run after settle_attempts.sql, which locks them.
-- Locks: the job rows, in id order; their steps. Index: primary keys. The update is HOT.
with moved as (
    update turnwise.job
       set state = 0,
           task = t.to_task,
           args = t.to_args::json,
           retry = coalesce(t.to_retry, 'task'),
           terms = t.to_terms,
           attempt = t.to_attempt,
           retries = t.to_retries,
           crashes = t.to_crashes,
           fence = job.fence + $2,
           error = coalesce(t.to_error, job.error),
           fingerprint = coalesce(t.to_fingerprint, job.fingerprint),
           expires_at = case when not t.clears_expiry then job.expires_at end,
           due_at = t.due,
           node = null,
           cancel_requested = job.cancel_requested and not t.clears_cancel,
           started_at = coalesce(t.began, job.started_at),
           finished_at = coalesce(t.ended, job.finished_at)
      from unnest($4::uuid[], $5::bigint[], $6::boolean[], $7::int[], $8::int[], $9::int[], $10::text[], $11::text[],
                  $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::bigint[], $16::text[], $17::text[],
                  $18::text[], $19::text[], $20::boolean[], $21::boolean[])
           as t (id, fence, saw_cancel, to_attempt, to_retries, to_crashes, to_error, to_fingerprint, due, began, ended,
                 ran, to_task, to_args, to_retry, to_terms, clears_expiry, clears_cancel)
     where job.id between t.id and t.id and job.fence = t.fence and job.node = $1 and job.state in (1, 2)
       and (t.saw_cancel or not job.cancel_requested)
    returning job.id, t.ran, t.to_fingerprint
), afresh as (
    delete from turnwise.step using moved where step.job between moved.id and moved.id
), told as (
    insert into turnwise.change (told, jobs, ran, fingerprints)
    select $3, array_agg(id), array_agg(ran), case when count(to_fingerprint) > 0 then array_agg(to_fingerprint) end
      from moved having count(*) > 0
), rung as materialized (
    select turnwise.ring()
      from turnwise.dispatcher
     where epoch is distinct from $3 and exists (select from moved)
)
select array_agg(moved.id) from moved where (select count(*) from rung) >= 0
