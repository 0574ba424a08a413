-- slice_older.sql: whether another transaction in this database has a snapshot from before $1, and so may see a job as unfinished
-- that ended before $1. A role that may not read others' activity sees the snapshots without the times: each of them counts.
-- Locks: nothing. Index: none.
select exists (
       select from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null
          and coalesce(xact_start < $1, true))
