-- settle_attempts.sql: write the runs of node $1 that ended to the attempts of their jobs, before these are settled in
-- the same transaction: task and number are still the run's own. The guards are those of settle_finish.sql, and the
-- locks keep them true until the settle. A job without an ending is only locked: settle_next.sql sees all its steps.
-- Locks: the job rows, in id order. Index: primary keys.
with held as materialized (
    select t.id, t.fence, job.attempt + 1 as number, job.task, t.ending, coalesce(t.began, job.started_at) as began,
           t.ended, t.chain, t.place
      from unnest($2::uuid[], $3::bigint[], $4::boolean[], $5::smallint[], $6::timestamptz[], $7::timestamptz[],
                  $8::text[], $9::text[])
           as t (id, fence, saw_cancel, ending, began, ended, chain, place)
     cross join lateral (
           select attempt, task, started_at from turnwise.job
            where id = t.id and fence = t.fence and node = $1 and state in (1, 2)
              and (t.saw_cancel or not cancel_requested)
              for update
           ) as job
)
insert into turnwise.attempt (job, fence, number, task, ending, node_name, started_at, finished_at, chain, place)
select id, fence, number, task, ending, (select name from turnwise.node where incarnation = $1), began, ended,
       chain::json, place
  from held
 where ending is not null
on conflict (job, fence) do nothing
