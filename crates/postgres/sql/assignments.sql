-- assignments.sql: a node's batches, without those it knows, with the jobs that are still in its hands; then, without a batch, the jobs
-- in its hands that it shall stop.
-- Locks: nothing. Index: primary keys. `offset 0`: from the few requests to their jobs, never from all jobs to their requests, which
-- the planner takes for as good while the table of requests was never analysed.
(select mail.batch, part.n,
        job.id, job.fence, job.state, job.attempt, job.retries, job.crashes, job.cancel_requested, job.submitted_at,
        job.priority, job.task, job.queue, job.grp, job.retry, job.args, job.terms,
        coalesce(part.limited, false) as limited
   from turnwise.assignment as mail
   left join lateral unnest(mail.jobs, mail.limited) with ordinality as part (id, limited, n) on true
   left join turnwise.job on job.id between part.id and part.id and job.node = $1 and job.state in (1, 2)
  where mail.node = $1 and mail.batch <> all ($2::uuid[]))
union all
(select null, null, job.id, job.fence, null, null, null, null, null, null, null, null, null, null, null, null, null, null
   from turnwise.stop_request as stop
  cross join lateral (select id, fence
                        from turnwise.job
                       where job.id between stop.job and stop.job and job.fence = stop.fence and job.node = $1
                         and job.state in (1, 2) and job.cancel_requested
                      offset 0) as job
  where stop.node = $1)
 order by 1, 2, 3
