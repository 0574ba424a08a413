-- trim_log.sql: of the lines of the jobs $2, if node $1 has them at the fences $3, keep the last $4; count those that are deleted.
-- Run after note.sql in the same transaction, which locks the jobs.
-- Locks: the lines that are deleted; the jobs' progress. Index: primary keys.
with edge as materialized (
    select t.id, last.fence, last.number
      from unnest($2::uuid[], $3::bigint[]) as t (id, fence)
     cross join lateral (
           select from turnwise.job
            where id = t.id and fence = t.fence and node = $1 and state in (1, 2)
           offset 0
           ) as held
     cross join lateral (
           select log.fence, log.number from turnwise.log
            where log.job = t.id
            order by log.fence desc, log.number desc
           offset $4
            limit 1
           ) as last
), cut as (
    delete from turnwise.log
     using edge
     where log.job = edge.id and (log.fence, log.number) <= (edge.fence, edge.number)
    returning log.job
)
insert into turnwise.progress (job, dropped)
select job, count(*) from cut group by job
on conflict (job) do update set dropped = progress.dropped + excluded.dropped
