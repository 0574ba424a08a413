-- load_these.sql: the named unfinished jobs. Locks: nothing. Index: primary key.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end,
       clock.now
  from (select turnwise.now() as now) as clock
  left join turnwise.job on id = any ($1::uuid[])
