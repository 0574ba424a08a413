-- prune_changes.sql: delete at most $2 changes that the snapshot $1 has seen, if it is of the lineage $3 and
-- that is still the current one.
-- Locks: those rows. Index: change_xact.
delete from turnwise.change
 where ctid = any (array(
       select ctid from turnwise.change
        where xact < pg_snapshot_xmax($1::text::pg_snapshot)
          and pg_visible_in_snapshot(xact, $1::text::pg_snapshot)
          and $3::bigint = turnwise.lineage()
        order by xact
        limit $2
          for update skip locked))
