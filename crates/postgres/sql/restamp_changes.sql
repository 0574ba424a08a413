-- restamp_changes.sql: the same for changes (see restamp_jobs.sql). Locks: those rows. Index: change_pkey.
update turnwise.change set xact = pg_current_xact_id() where xact > pg_snapshot_xmax(pg_current_snapshot())
