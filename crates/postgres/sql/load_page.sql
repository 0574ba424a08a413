-- load_page.sql: a page of unfinished jobs, from $1 on but without $2. Locks: nothing. Index: primary key.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, args_bytes, clock.now
  from (select turnwise.now() as now) as clock
  left join (
       select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
              on_failure,
              case when pg_column_compression(args) is null then pg_column_size(args) else octet_length(args::text) end as args_bytes
         from turnwise.job
        where id >= $1 and id is distinct from $2
        order by id
        limit $3
  ) as job on true
