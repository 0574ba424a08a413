-- load_these.sql: the named unfinished jobs. Locks: nothing. Index: primary key.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, clock.now
  from (select turnwise.now() as now) as clock
  left join turnwise.job on id = any ($1::uuid[])
