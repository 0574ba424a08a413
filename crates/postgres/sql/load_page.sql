-- load_page.sql: a page of unfinished jobs, from $1 on but without $2. Locks: nothing. Index: primary key.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, clock.now
  from (select turnwise.now() as now) as clock
  left join (
       select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
              on_failure
         from turnwise.job
        where id >= $1 and id is distinct from $2
        order by id
        limit $3
  ) as job on true
