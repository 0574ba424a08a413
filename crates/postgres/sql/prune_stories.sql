-- prune_stories.sql: of what was told of $2 jobs of a part of history that ended before $1, delete at most $3 rows of a
-- kind: one job may have ten thousand lines, and ten thousand jobs are pruned at a time. Tells the most that went of one.
-- (The name of the table is that of one part; the others' are put in its place.) A job that a person is just having run again
-- is left alone, and keeps what it told.
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
