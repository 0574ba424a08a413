-- prune_history.sql: delete what ended longer ago than the retention, with what is left of its story. Tells how many
-- jobs went. Locks: those rows. Index: history_ended_at; primary keys.
with old as (
    delete from turnwise.history
     where id in (
           select id from turnwise.history
            where ended_at < turnwise.now() - $1::bigint * interval '1 microsecond'
            order by ended_at
            limit $2
              for update skip locked)
    returning id
), attempts as (
    delete from turnwise.attempt using old where attempt.job = old.id
), lines as (
    delete from turnwise.log using old where log.job = old.id
), steps as (
    delete from turnwise.step using old where step.job = old.id
), progress as (
    delete from turnwise.progress using old where progress.job = old.id
)
select count(*) from old
