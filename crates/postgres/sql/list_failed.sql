-- list_failed.sql: as list_jobs.sql, of failed jobs with an error of the kind $13. Locks: nothing. Index: history_failed_fingerprint,
-- backwards, of all slices at once.
select id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
       key, terms, fingerprint, expires_at
  from (select * from turnwise.history_failed where fingerprint = $13 and id <= $1 order by id desc limit $2) as history
 where state = any ($4::smallint[])
   and ($5::text[] is null or queue = any ($5))
   and ($6::text[] is null or grp = any ($6))
   and ($7::text[] is null or task = any ($7))
   and ($8::text is null or node_name = $8)
   and ($9::timestamptz is null or submitted_at >= $9)
   and ($10::timestamptz is null or submitted_at < $10)
   and ($11::text is null or task = any ($12::text[]) or strpos(args::text, $11) > 0)
 order by id desc
 limit $3
