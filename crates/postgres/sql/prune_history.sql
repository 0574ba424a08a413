-- prune_history.sql: delete jobs of a part of history that ended before $1 and have no story, at most $2. Bad ends go to
-- bad_end, where jobs that were submitted in still open transactions find them. Returns how many jobs were deleted.
-- (The table named here stands for one part; the code puts the name of another in its place.)
-- Locks: those rows. Index: the rest's own, by its end; in a slice history_pkey.
with gone as (
    delete from turnwise.history_success_rest
     where ctid = any (array(
           select ctid from turnwise.history_success_rest
            where ended_at < $1 and not noted
            limit $2
              for update skip locked))
    returning id, state
), remembered as (
    insert into turnwise.bad_end (id, state)
    select id, state from gone where state <> 4
    on conflict (id) do update set state = excluded.state, xact = excluded.xact, until = null
)
select count(*) from gone
