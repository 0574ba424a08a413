-- assign_again.sql: read what the picks that were not taken are now. Locks: nothing. Index: primary key.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end,
       state, attempt, retries, crashes, cancel_requested, submitted_at, priority, task, queue, grp, retry, args,
       terms
  from turnwise.job
 where id = any ($1::uuid[])
