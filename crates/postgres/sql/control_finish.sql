-- control_finish.sql: end jobs by a person's decision, each guarded by the state and fence the person saw.
-- Jobs that end in one of the states $10 enter history. Locks: the job rows, in id order. Index: primary keys.
with gone as (
    delete from turnwise.job
     using unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::smallint[], $5::int[], $6::int[], $7::int[], $8::text[],
                  $9::text[])
           as t (id, fence, seen_state, end_state, end_attempt, end_retries, end_crashes, end_error,
                 end_fingerprint)
     where job.id between t.id and t.id and job.fence = t.fence and job.state = t.seen_state
    returning job.*, t.end_state, t.end_attempt, t.end_retries, t.end_crashes, t.end_error, t.end_fingerprint
), kept as (
    insert into turnwise.history (
           id, seq, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
           error, submitted_at, due_at, assigned_at, started_at, finished_at, ended_at, key, terms,
           expires_at, fingerprint)
    select id, seq, task, queue, grp, priority, args, retry, end_state, end_attempt, end_retries, end_crashes,
           fence, cancel_requested, coalesce(end_error, error), submitted_at, due_at, assigned_at, started_at,
           coalesce(finished_at, turnwise.now()), turnwise.now(), key, terms, expires_at,
           coalesce(end_fingerprint, fingerprint)
      from gone
     where end_state = any ($10::smallint[])
), told as (
    insert into turnwise.change (jobs, ran, fingerprints)
    select array_agg(id), array_agg(null::bigint), case when count(end_fingerprint) > 0 then array_agg(case end_state when 5 then end_fingerprint end) end
      from gone having count(*) > 0
), rung as materialized (
    select turnwise.ring() where exists (select from gone)
)
select gone.id from gone where (select count(*) from rung) >= 0
