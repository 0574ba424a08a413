-- prune_history.sql: delete what ended in state $1 before $2, with what is left of its story. Tells how many
-- jobs went. Locks: those rows. Index: history_ended_at; primary keys.
with old as (
    delete from turnwise.history
     where id in (
           select id from turnwise.history
            where state = $1::smallint and ended_at < $2::timestamptz
            order by ended_at
            limit $3
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
