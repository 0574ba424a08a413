-- load_in_hands.sql: jobs in the hands of all nodes, or of node $1; each is in an assignment until it is settled.
-- Locks: nothing. Index: primary key of job; assignment is read whole, it holds what nodes hold and no more.
select id, seq, task, queue, grp, priority, state, due_at, fence, crashes, node, key, submitted_at, expires_at,
       on_failure, args_bytes, clock.now
  from (select turnwise.now() as now) as clock
  left join (
       select job.id, job.seq, job.task, job.queue, job.grp, job.priority, job.state, job.due_at, job.fence, job.crashes,
              job.node, job.key, job.submitted_at, job.expires_at, job.on_failure,
              case when pg_column_compression(job.args) is null then pg_column_size(job.args) else octet_length(job.args::text) end as args_bytes
         from (
              select distinct unnest(jobs) as id, node from turnwise.assignment where $1::uuid is null or node = $1
              ) as mail
         join turnwise.job on job.id between mail.id and mail.id and job.state in (1, 2)
          and job.node = mail.node
  ) as job on true
