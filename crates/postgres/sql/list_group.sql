-- list_group.sql: as list_jobs.sql, of unfinished jobs of the group $6, and with an error of the kind $13 unless that is null. The bounds and the
-- order name the group beside the id: only one index has that order, so that the planner cannot take another one, whatever it
-- believes of the table. Locks: nothing. Index: job_group, backwards.
select job.id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node.name as node_name, null::json as result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
       key, terms, fingerprint, expires_at
  from (
       select *, grp collate "C" as by_group, uuid_send(id) as by_id
         from turnwise.job
        where (grp collate "C", uuid_send(id)) >= ($6::text, ''::bytea)
          and (grp collate "C", uuid_send(id)) <= ($6, uuid_send($1))
        order by grp collate "C" desc, uuid_send(id) desc
        limit $2
       ) as job
  left join turnwise.node on node.incarnation = job.node
 where state = any ($4::smallint[])
   and ($5::text[] is null or queue = any ($5))
   and ($7::text[] is null or task = any ($7))
   and ($8::text is null or node.name = $8)
   and ($9::timestamptz is null or submitted_at >= $9)
   and ($10::timestamptz is null or submitted_at < $10)
   and ($11::text is null or task = any ($12::text[]) or strpos(args::text, $11) > 0)
   and ($13::text is null or fingerprint = $13)
 order by job.by_group desc, job.by_id desc
 limit $3
