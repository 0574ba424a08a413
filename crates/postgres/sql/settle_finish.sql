-- settle_finish.sql: move finished jobs of node $1 to history, record the change for the dispatcher, remove the batches $3.
-- A row whose fence or node has changed, or with a cancel request the decision did not know, is left alone and absent
-- from the reply. $2: the epoch of the dispatcher that learns of it inside the process; $16: what is added to the fence; $18:
-- whether the job may have a story. It ends by the clock, once for the batch: a task's own transaction may have begun long ago.
-- Locks: the job rows, in id order; the node's assignments. Index: primary keys.
with gone as (
    delete from turnwise.job
     using unnest($4::uuid[], $5::bigint[], $6::boolean[], $7::smallint[], $8::int[], $9::int[], $10::int[],
                  $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[], $15::bigint[],
                  $17::text[], $18::boolean[], $19::boolean[])
           as t (id, fence, saw_cancel, end_state, end_attempt, end_retries, end_crashes, end_error, result, began, ended, ran,
                 end_fingerprint, noted, clears_expiry)
     where job.id between t.id and t.id and job.fence = t.fence and job.node = $1 and job.state in (1, 2)
       and (t.saw_cancel or not job.cancel_requested)
    -- Columns are named one by one: with `job.*` all of them would be copied once more.
    returning job.id, job.seq, job.task, job.queue, job.grp, job.priority, job.args, job.retry, job.fence,
              job.cancel_requested, job.error, job.submitted_at, job.due_at, job.assigned_at, job.started_at,
              job.finished_at, job.key, job.terms, job.expires_at, job.fingerprint, job.on_failure,
              t.end_state, t.end_attempt, t.end_retries, t.end_crashes, t.end_error, t.result, t.began, t.ended,
              t.ran, t.end_fingerprint, t.noted, t.clears_expiry
), kept as (
    insert into turnwise.history (
           id, seq, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
           node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at, ended_at, key,
           terms, expires_at, fingerprint, noted)
    select id, seq, task, queue, grp, priority, args, retry, end_state, end_attempt, end_retries, end_crashes,
           fence + $16, cancel_requested, (select name from turnwise.node where incarnation = $1), result::json,
           coalesce(end_error, error), submitted_at, due_at, assigned_at, coalesce(began, started_at),
           coalesce(ended, finished_at, (select turnwise.clock())), (select turnwise.clock()), key,
           terms, case when not clears_expiry then expires_at end, coalesce(end_fingerprint, fingerprint),
           noted or on_failure is not null
      from gone
), told as (
    insert into turnwise.change (told, jobs, ran, failed, fingerprints)
    select $2, array_agg(id), array_agg(ran), array_agg(case end_state when 5 then true when 4 then false end),
           case when count(end_fingerprint) > 0 then array_agg(case end_state when 5 then end_fingerprint end) end
      from gone having count(*) > 0
), done as (
    delete from turnwise.assignment where node = $1 and batch = any ($3::uuid[])
), rung as materialized (
    select turnwise.ring()
      from turnwise.dispatcher
     where epoch is distinct from $2 and exists (select from gone)
)
select array_agg(gone.id) from gone where (select count(*) from rung) >= 0
