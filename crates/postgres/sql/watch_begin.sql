-- watch_begin.sql: where a watcher begins: the lineage, if there is one, this statement's snapshot, the time, and a number for the
-- cluster, its timeline and the database. Locks: nothing. Index: none.
select turnwise.lineage() as lineage, pg_current_snapshot()::text as snapshot, turnwise.now() as now,
       hashtextextended(turnwise.known_place(), 0) as place
