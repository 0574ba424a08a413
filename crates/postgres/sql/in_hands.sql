-- in_hands.sql: at most $1 jobs in nodes' hands, by id, with how far they have come. Each is in an assignment until it is settled. The
-- first row has only the time.
-- Locks: nothing. Index: primary keys of job (one look for each) and progress; assignment is read whole, it holds what nodes hold and no more.
select null::uuid as id, null::text as task, null::text as queue, null::text as grp, null::smallint as state, null::int as attempt,
       null::text as node_name, null::timestamptz as submitted_at, null::timestamptz as started_at, null::bigint as fence,
       null::bigint as done, null::bigint as total, null::text as text, turnwise.now() as now
 union all
(select job.id, task, queue, grp, state, attempt, node.name, submitted_at, started_at, fence,
        progress.done, progress.total, progress.text, null
   from (select distinct node, unnest(jobs) as id from turnwise.assignment) as mail
   join turnwise.node on node.incarnation = mail.node
  cross join lateral (
        select * from turnwise.job where job.id = mail.id and job.node = mail.node and job.state in (1, 2) offset 0
   ) as job
   left join turnwise.progress on progress.job between job.id and job.id
  order by job.id
  limit $1)
