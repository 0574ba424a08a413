-- assignments_stop.sql: the jobs that a node shall stop, of those that are still in its hands. Index: unique (node, job), that of ids.
select stop.job, stop.fence
  from turnwise_stop_request as stop
  join turnwise_job as job on job.id = stop.job and job.node = stop.node and job.fence = stop.fence
 where stop.node = ?1 and job.state in (1, 2) and job.cancel_requested
 order by stop.job
