-- bad_ends_until.sql: whoever took the jobs $1 for unfinished and wrote down to wait for them has a number by now, and it is
-- below the next one. A statement of its own after bad_ends_seen.sql: its snapshot must be younger than that look.
-- Locks: those rows. Index: primary key.
update turnwise.bad_end set until = pg_snapshot_xmax(pg_current_snapshot()) where id = any ($1::uuid[]) and until is null
