-- prune_bad_ends.sql: delete at most $1 bad ends that no new job can wait for any more; jobs that already wait for one record
-- it in their dependency row. A bad end whose transaction number has not been given yet came with a dump of another database.
-- Returns how many were deleted.
-- Locks: those rows. Index: primary key, dependency_awaits.
with gone as (
    delete from turnwise.bad_end
     where id = any (array(
           select id from turnwise.bad_end
            where until <= pg_snapshot_xmin(pg_current_snapshot()) or xact >= pg_snapshot_xmax(pg_current_snapshot())
            limit $1
              for update skip locked))
    returning id, state
), remembered as (
    update turnwise.dependency set ended = gone.state from gone where dependency.awaits between gone.id and gone.id
)
select count(*) from gone
