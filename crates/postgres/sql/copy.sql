-- copy.sql: new jobs, in submission order; what is not named here has a default, the due time among them.
-- Locks: the new rows only.
copy turnwise.job (id, task, args, queue, grp, priority, retry, key, terms, expires_at) from stdin (format binary)
