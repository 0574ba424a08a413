-- settle_stay.sql: put assigned jobs of node $1 where core decided, when that is not their end: running, waiting, stuck.
-- The guards, the change for the dispatcher and the batches are as in settle_finish.sql.
-- Locks: the job rows, in id order; the node's assignments. Index: primary keys. The update is HOT.
with moved as (
    update turnwise.job
       set state = t.to_state,
           attempt = t.to_attempt,
           retries = t.to_retries,
           crashes = t.to_crashes,
           fence = job.fence + $16,
           error = coalesce(t.to_error, job.error),
           fingerprint = coalesce(t.to_fingerprint, job.fingerprint),
           expires_at = case when not t.clears_expiry then job.expires_at end,
           due_at = case when t.to_state = 2 then job.due_at else t.due end,
           node = case when t.to_state = 2 then job.node end,
           cancel_requested = job.cancel_requested and not t.clears_cancel,
           started_at = coalesce(t.began, job.started_at),
           finished_at = coalesce(t.ended, job.finished_at)
      from unnest($4::uuid[], $5::bigint[], $6::boolean[], $7::smallint[], $8::int[], $9::int[], $10::int[],
                  $11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::bigint[],
                  $17::text[], $18::boolean[], $19::boolean[])
           as t (id, fence, saw_cancel, to_state, to_attempt, to_retries, to_crashes, to_error, due, began, ended, ran,
                 to_fingerprint, clears_expiry, clears_cancel)
     where job.id between t.id and t.id and job.fence = t.fence and job.node = $1 and job.state in (1, 2)
       and (t.saw_cancel or not job.cancel_requested)
    returning job.id, job.state, t.ran, t.to_fingerprint
), told as (
    insert into turnwise.change (told, jobs, ran, failed, fingerprints)
    select $2, array_agg(id), array_agg(ran), array_agg(case state when 3 then true end),
           case when count(to_fingerprint) > 0 then array_agg(to_fingerprint) end
      from moved where state <> 2 having count(*) > 0
), done as (
    delete from turnwise.assignment where node = $1 and batch = any ($3::uuid[])
), rung as materialized (
    select turnwise.ring()
      from turnwise.dispatcher
     where epoch is distinct from $2 and exists (select from moved where state <> 2)
)
select array_agg(moved.id) from moved where (select count(*) from rung) >= 0
