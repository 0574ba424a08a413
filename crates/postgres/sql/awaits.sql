-- awaits.sql: of the jobs that the jobs $1 wait for, by id: those that have not ended (without a state) and those that ended
-- otherwise than with success. One statement, so that a job that ends meanwhile is seen in exactly one of the two tables.
-- Locks: nothing. Index: primary keys.
select dependency.job, dependency.awaits,
       case when job.id is null then coalesce(history.state, dependency.ended, bad_end.state) end as state
  from turnwise.dependency
  left join lateral (select id from turnwise.job where id = dependency.awaits offset 0) as job on true
  left join turnwise.history on history.id between dependency.awaits and dependency.awaits
  left join turnwise.bad_end on bad_end.id between dependency.awaits and dependency.awaits
 where dependency.job = any ($1::uuid[])
   and (job.id is not null or coalesce(history.state, dependency.ended, bad_end.state) <> 4)
 order by dependency.job, dependency.awaits
