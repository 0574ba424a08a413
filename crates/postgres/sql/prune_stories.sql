-- prune_stories.sql: of the stories of $2 jobs of a part of history that ended before $1, delete at most $3 rows of each kind: one
-- job may have ten thousand lines, and ten thousand jobs are pruned at a time. Returns the largest number deleted of one kind.
-- (The table named here stands for one part; the code puts the name of another in its place.) A job that a person is retrying
-- now is left alone, and keeps its story.
-- Locks: the jobs' rows; those rows. Index: history_noted; primary keys.
with old as materialized (
    select id from turnwise.history_success_rest
     where noted and ended_at < $1
     order by id
     limit $2
       for update skip locked
), attempts as (
    delete from turnwise.attempt
     where ctid = any (array(
           select attempt.ctid from old join turnwise.attempt on attempt.job = old.id limit $3))
    returning 1
), lines as (
    delete from turnwise.log
     where ctid = any (array(select log.ctid from old join turnwise.log on log.job = old.id limit $3))
    returning 1
), steps as (
    delete from turnwise.step
     where ctid = any (array(select step.ctid from old join turnwise.step on step.job = old.id limit $3))
    returning 1
), progress as (
    delete from turnwise.progress using old where progress.job = old.id
), dependencies as (
    delete from turnwise.dependency
     where ctid = any (array(
           select dependency.ctid from old join turnwise.dependency on dependency.job = old.id limit $3))
    returning 1
)
select greatest((select count(*) from attempts), (select count(*) from lines), (select count(*) from steps),
                (select count(*) from dependencies))
