-- watch.sql: news.sql for readers that are not the dispatcher: jobs and changes that the snapshot $1 could not see and this statement's
-- own can, at most $2 of each half; where the next call begins (kind 0), with how far changes were deleted, and, where there is no lineage
-- or the caller's cursor is of before the first ($3), the number for the place of watch_begin.sql; whether memos were written, and how
-- many changes were read (kind 3).
-- Locks: nothing. Index: job_xact, change_pkey, in whose order they are read so that a few rows cost as much; job's primary key for the
-- heads of changes.
with unseen as materialized (
    (select seq, jobs, ran, failed, fingerprints, memos from turnwise.change
      where xact >= pg_snapshot_xmax($1::text::pg_snapshot)
      order by xact
      limit $2)
     union all
    (select seq, jobs, ran, failed, fingerprints, memos from turnwise.change
      where xact = any (array(select pg_snapshot_xip($1::text::pg_snapshot)))
      limit $2)
)
select 0 as kind,
       case when $3::boolean or turnwise.lineage() is null
            then hashtextextended(concat_ws(' ', turnwise.known_place(),
                                            extract(epoch from pg_stat_get_bgwriter_stat_reset_time())), 0) end as change,
       null::bigint as n, null::uuid as changed, turnwise.lineage() as ran,
       null::boolean as failed, null::text as fingerprint, pg_current_snapshot()::text as snapshot, turnwise.now() as now,
       null::uuid as id, null::bigint as seq, null::text as task, null::text as queue, null::text as grp,
       null::smallint as priority, null::smallint as state, null::timestamptz as due_at, null::bigint as fence,
       null::int as crashes, null::uuid as node, null::text as key, null::timestamptz as submitted_at,
       null::timestamptz as expires_at, null::text as on_failure, null::int as args_bytes,
       (select seen::text from turnwise.change_floor where lineage = turnwise.lineage()) as floor
 union all
(select 1, null, null, null, null, null, null, null, null,
        id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
        on_failure,
        case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end, null
   from turnwise.job
  where xact >= pg_snapshot_xmax($1::text::pg_snapshot)
  order by xact
  limit $2)
 union all
(select 1, null, null, null, null, null, null, null, null,
        id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
        on_failure,
        case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end, null
   from turnwise.job
  where xact = any (array(select pg_snapshot_xip($1::text::pg_snapshot)))
  limit $2)
 union all
(select 2, change.seq, told.n, told.id, told.ran, told.failed, told.fingerprint, null, null,
        job.id, job.seq, job.task, job.queue, job.grp, job.priority, job.state, job.due_at, job.fence, job.crashes,
        job.node, job.key, job.submitted_at, job.expires_at, job.on_failure,
        case when pg_column_compression(job.args) is null then pg_column_size(job.args) else octet_length(job.args::text) end, null
   from unseen as change
  cross join unnest(change.jobs, change.ran, change.failed, change.fingerprints) with ordinality
        as told (id, ran, failed, fingerprint, n)
   left join turnwise.job on job.id between told.id and told.id
  limit $2)
 union all
select 3, count(*), null, null, null, coalesce(bool_or(memos), false), null, null, null,
       null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
  from unseen
