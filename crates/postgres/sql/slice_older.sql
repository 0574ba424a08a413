-- slice_older.sql: whether somebody in this database has a snapshot from before $1, and so may take for unfinished what has
-- ended before $1. Who may not read others' activity is shown the snapshots without the times: each of them counts.
-- Locks: nothing. Index: none.
select exists (
       select from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null
          and coalesce(xact_start < $1, true))
