-- load_page.sql: a page of unfinished jobs in id order. Index: unique id.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, octet_length(args)
  from turnwise_job
 where id > ?1
 order by id
 limit ?2
