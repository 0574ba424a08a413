-- bad_ends_until.sql: every transaction that saw the jobs $1 as unfinished and stored a job that waits for them has a number
-- already, and that number is below the next one to be given. A statement of its own after bad_ends_seen.sql: its snapshot must
-- be younger than that one's.
-- Locks: those rows. Index: primary key.
update turnwise.bad_end set until = pg_snapshot_xmax(pg_current_snapshot()) where id = any ($1::uuid[]) and until is null
