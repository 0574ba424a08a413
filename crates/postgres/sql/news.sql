-- news.sql: what the snapshot $1 could not see and this statement's own can: jobs, changes that the dispatcher of
-- epoch $2 does not know already, whether memos were written, and the lineage and this statement's snapshot, where the next
-- call begins; and until when totals are asked for, if they are. Of each half of the jobs at most $3. A snapshot of another lineage means nothing here: the caller compares lineages.
-- A row is new if its transaction began after the last snapshot (xact >= xmax) or was under way then (xact in xip);
-- a sequence number would lose rows, since it is given before commit. A union, so that both halves use the index.
-- Locks: nothing. Index: job_xact, change_pkey; job's primary key for the heads of changes.
with unseen as materialized (
    select seq, told, jobs, ran, failed, fingerprints, memos from turnwise.change
     where xact >= pg_snapshot_xmax($1::text::pg_snapshot)
     union all
    select seq, told, jobs, ran, failed, fingerprints, memos from turnwise.change
     where xact = any (array(select pg_snapshot_xip($1::text::pg_snapshot)))
)
select 0 as kind, null::bigint as change, null::bigint as n, null::uuid as changed, null::bigint as ran,
       null::boolean as failed, null::text as fingerprint, coalesce(turnwise.lineage()::text, '') || '/' || pg_current_snapshot() as cursor, turnwise.now() as now,
       null::uuid as id, null::bigint as seq, null::text as task, null::text as queue, null::text as grp,
       null::smallint as priority, null::smallint as state, null::timestamptz as due_at, null::bigint as fence,
       null::int as crashes, null::uuid as node, null::text as key, null::timestamptz as submitted_at,
       null::timestamptz as expires_at, null::text as on_failure, null::int as args_bytes,
       (select asked_until from turnwise.totals where asked_until > turnwise.now()) as asked
 union all
(select 1, null, null, null, null, null, null, null, null,
        id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
        on_failure,
        case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end, null
   from turnwise.job
  where xact >= pg_snapshot_xmax($1::text::pg_snapshot)
  limit $3)
 union all
(select 1, null, null, null, null, null, null, null, null,
        id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
        on_failure,
        case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end, null
   from turnwise.job
  where xact = any (array(select pg_snapshot_xip($1::text::pg_snapshot)))
  limit $3)
 union all
select 2, change.seq, told.n, told.id, told.ran, told.failed, told.fingerprint, null, null,
       job.id, job.seq, job.task, job.queue, job.grp, job.priority, job.state, job.due_at, job.fence, job.crashes,
       job.node, job.key, job.submitted_at, job.expires_at, job.on_failure,
       case when pg_column_compression(job.args) is null then pg_column_size(job.args) else octet_length(job.args::text) end, null
  from unseen as change
 cross join unnest(change.jobs, change.ran, change.failed, change.fingerprints) with ordinality
       as told (id, ran, failed, fingerprint, n)
  left join turnwise.job on job.id between told.id and told.id
 where change.told is distinct from $2
 union all
select 3, null, null, null, null, null, null, null, null,
       null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
 where exists (select from unseen where memos)
