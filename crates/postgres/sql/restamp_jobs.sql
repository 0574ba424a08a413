-- restamp_jobs.sql: rows restored from a dump may carry transaction ids of another cluster's future, and would be news
-- for ever. Locks: those rows. Index: job_xact.
update turnwise.job set xact = pg_current_xact_id() where xact > pg_snapshot_xmax(pg_current_snapshot())
