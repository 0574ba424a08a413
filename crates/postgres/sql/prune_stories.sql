-- prune_stories.sql: of what was told of the jobs that prune_history.sql is about to take, delete at most $4 rows of a
-- kind: one job may have ten thousand lines, and ten thousand jobs are pruned at a time. Tells the most that went of one.
-- Locks: those rows. Index: history_ended_at; primary keys.
with old as materialized (
    select id from turnwise.history
     where state = $1::smallint and ended_at < $2::timestamptz
     order by ended_at
     limit $3
), attempts as (
    delete from turnwise.attempt
     where ctid = any (array(
           select attempt.ctid from old join turnwise.attempt on attempt.job = old.id limit $4))
    returning 1
), lines as (
    delete from turnwise.log
     where ctid = any (array(select log.ctid from old join turnwise.log on log.job = old.id limit $4))
    returning 1
), steps as (
    delete from turnwise.step
     where ctid = any (array(select step.ctid from old join turnwise.step on step.job = old.id limit $4))
    returning 1
)
select greatest((select count(*) from attempts), (select count(*) from lines), (select count(*) from steps))
