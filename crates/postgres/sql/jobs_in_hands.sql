-- jobs_in_hands.sql: jobs in nodes' hands, newest first, with the conditions of jobs.sql. Each is in an assignment until it is settled.
-- Locks: nothing. Index: primary key of job, one look for each (without the offset the planner walks the range of ids); assignment is
-- read whole, it holds what nodes hold and no more.
select job.id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node.name as node_name, null::json as result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
       key, terms, fingerprint, expires_at
  from (select distinct node, unnest(jobs) as id from turnwise.assignment) as mail
  join turnwise.node on node.incarnation = mail.node
 cross join lateral (
       select * from turnwise.job where job.id = mail.id and job.node = mail.node and job.state in (1, 2) offset 0
  ) as job
 where (cardinality($1::smallint[]) = 0 or state = any ($1::smallint[]))
   and ($2::text is null or queue = $2::text)
   and ($3::text is null or grp = $3::text)
   and ($4::text is null or task = $4::text)
   and ($6::timestamptz is null or submitted_at >= $6::timestamptz)
   and ($7::timestamptz is null or submitted_at < $7::timestamptz)
   and mail.id between $8::uuid and $9::uuid
 order by job.id desc
 limit $5
