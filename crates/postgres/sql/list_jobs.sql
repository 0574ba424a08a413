-- list_jobs.sql: unfinished jobs from id $1 down, of the first $2 those that meet all conditions (null: any), at most $3.
-- Locks: nothing. Index: primary key, backwards.
select job.id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node.name as node_name, null::json as result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
       key, terms, fingerprint, expires_at
  from (select * from turnwise.job where id <= $1 order by id desc limit $2) as job
  left join turnwise.node on node.incarnation = job.node
 where state = any ($4::smallint[])
   and ($5::text[] is null or queue = any ($5))
   and ($6::text[] is null or grp = any ($6))
   and ($7::text[] is null or task = any ($7))
   and ($8::text is null or node.name = $8)
   and ($9::timestamptz is null or submitted_at >= $9)
   and ($10::timestamptz is null or submitted_at < $10)
   and ($11::text is null or task = any ($12::text[]) or strpos(args::text, $11) > 0)
 order by job.id desc
 limit $3
