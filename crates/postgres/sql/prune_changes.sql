-- prune_changes.sql: delete at most $2 changes that the snapshot $1 has seen, if it is of the lineage $3 and
-- that is still the current one; and note for watchers how far they were deleted. Of two snapshots of one lineage the later one has the
-- larger xmax, or fewer transactions that were open.
-- Locks: those rows, and that note. Index: change_pkey; primary key.
with gone as (
    delete from turnwise.change
     where ctid = any (array(
           select ctid from turnwise.change
            where xact < pg_snapshot_xmax($1::text::pg_snapshot)
              and pg_visible_in_snapshot(xact, $1::text::pg_snapshot)
              and $3::bigint = turnwise.lineage()
            order by xact
            limit $2
              for update skip locked))
    returning 1
), floor as (
    insert into turnwise.change_floor as old (lineage, seen)
    select $3::bigint, $1::text::pg_snapshot where exists (select from gone)
    on conflict (only_one) do update set lineage = excluded.lineage, seen = excluded.seen
     where old.lineage <> excluded.lineage
        or pg_snapshot_xmax(old.seen) < pg_snapshot_xmax(excluded.seen)
        or (pg_snapshot_xmax(old.seen) = pg_snapshot_xmax(excluded.seen)
            and (select count(*) from pg_snapshot_xip(old.seen)) > (select count(*) from pg_snapshot_xip(excluded.seen)))
)
select count(*) from gone
