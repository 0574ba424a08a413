-- news.sql: at most ?2 jobs beyond the cursor, in submission order. Index: primary key. Writers come one after the other, so a
-- number that is not visible yet is larger than all that are.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, octet_length(args)
  from turnwise_job
 where seq > ?1
 order by seq
 limit ?2
