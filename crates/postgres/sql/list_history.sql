-- list_history.sql: as list_jobs.sql, of finished jobs. Only the parts of history of these states, three at most, are looked at: one
-- by one, since PostgreSQL leaves no part out for `any` of an array whose values it does not know when it plans. Locks: nothing. Index:
-- history_pkey, backwards, of all parts at once.
select id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
       key, terms, fingerprint, expires_at
  from (
       select *
         from turnwise.history
        where id <= $1 and state in (($4::smallint[])[1], ($4::smallint[])[2], ($4::smallint[])[3])
        order by id desc
        limit $2
       ) as history
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
