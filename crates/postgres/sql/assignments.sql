-- assignments.sql: a node's batches, without those it knows, with the jobs that are still in its hands.
-- Locks: nothing. Index: primary keys.
select mail.batch,
       array(select c.id
               from unnest(mail.cancel) with ordinality as c (id, n)
               join turnwise.job as held on held.id between c.id and c.id and held.node = $1 and held.state in (1, 2)
                    and held.cancel_requested
              order by c.n) as cancel,
       job.id, job.fence, job.state, job.attempt, job.retries, job.crashes, job.cancel_requested, job.submitted_at,
       job.priority, job.task, job.queue, job.grp, job.retry, job.args, job.terms,
       coalesce(part.limited, false) as limited
  from turnwise.assignment as mail
  left join lateral unnest(mail.jobs, mail.limited) with ordinality as part (id, limited, n) on true
  left join turnwise.job on job.id between part.id and part.id and job.node = $1 and job.state in (1, 2)
 where mail.node = $1 and mail.batch <> all ($2::uuid[])
 order by mail.batch, part.n
