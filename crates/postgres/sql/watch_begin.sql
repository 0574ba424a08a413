-- watch_begin.sql: where a watcher begins: the lineage, if there is one, this statement's snapshot, the time, and a number for the
-- cluster, its timeline, the database, and since when the server counts: after a crash it begins to count anew.
-- Locks: nothing. Index: none.
select turnwise.lineage() as lineage, pg_current_snapshot()::text as snapshot, turnwise.now() as now,
       hashtextextended(concat_ws(' ', turnwise.known_place(),
                                  extract(epoch from pg_stat_get_bgwriter_stat_reset_time())), 0) as place
