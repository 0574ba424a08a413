-- list_group_history.sql: as list_group.sql, of finished jobs; only the parts of history of the wanted states are looked at, as in
-- list_history.sql. Locks: nothing. Index: history_group, backwards, of all parts at once.
select id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
       key, terms, fingerprint, expires_at
  from (
       select *, grp collate "C" as by_group
         from turnwise.history
        where (grp collate "C", id) >= ($6::text, '00000000-0000-0000-0000-000000000000'::uuid)
          and (grp collate "C", id) <= ($6, $1)
          and state in (($4::smallint[])[1], ($4::smallint[])[2], ($4::smallint[])[3])
        order by grp collate "C" desc, id desc
        limit $2
       ) as history
 where state = any ($4::smallint[])
   and ($5::text[] is null or queue = any ($5))
   and ($7::text[] is null or task = any ($7))
   and ($8::text is null or node_name = $8)
   and ($9::timestamptz is null or submitted_at >= $9)
   and ($10::timestamptz is null or submitted_at < $10)
   and ($11::text is null or task = any ($12::text[]) or strpos(args::text, $11) > 0)
   and ($13::text is null or fingerprint = $13)
 order by by_group desc, id desc
 limit $3
