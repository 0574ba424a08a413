-- assign_again.sql: read what the picks that were not taken are now. Locks: nothing. Index: primary key.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, state, attempt, retries, crashes, cancel_requested, submitted_at, priority, task, queue, grp, retry, args,
       terms
  from turnwise.job
 where id = any ($1::uuid[])
