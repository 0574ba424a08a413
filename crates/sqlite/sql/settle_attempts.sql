-- settle_attempts.sql: writes a run that has ended, by what the job's row says before the settlement is written to it. One row
-- for each fence, however often the end is reported. Guard: the fence. Index: primary key.
insert into turnwise_attempt (job, fence, number, task, ending, node_name, started_at, finished_at, chain, place)
select id, fence, attempt + 1, task, ?3, ?4, coalesce(?5, started_at), ?6, ?7, ?8
  from turnwise_job
 where seq = ?1 and fence = ?2
    on conflict (job, fence) do nothing
