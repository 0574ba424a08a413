-- forget.sql: delete the stories (attempts, log, steps, progress, dependencies) of those of the jobs $1 that no longer exist,
-- after they were deleted in the same transaction. A job that was not deleted after all keeps its story.
-- Locks: the rows that are deleted. Index: primary keys.
with gone as materialized (
    select t.id
      from unnest($1::uuid[]) as t (id)
     where not exists (select from turnwise.job where job.id = t.id offset 0)
       and not exists (select from turnwise.history where history.id = t.id offset 0)
), attempts as (
    delete from turnwise.attempt using gone where attempt.job between gone.id and gone.id
), lines as (
    delete from turnwise.log using gone where log.job between gone.id and gone.id
), steps as (
    delete from turnwise.step using gone where step.job between gone.id and gone.id
), dependencies as (
    delete from turnwise.dependency using gone where dependency.job between gone.id and gone.id
)
delete from turnwise.progress using gone where progress.job between gone.id and gone.id
