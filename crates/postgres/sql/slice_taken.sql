-- slice_taken.sql: whether the rest of history holds jobs that ended from $1 on and before $2: then no slice can be made for them.
-- (The table named here is that of one state; the code puts the name of another in its place.)
-- Locks: nothing. Index: the rest's own.
select exists (select from turnwise.history_success_rest where ended_at >= $1 and ended_at < $2)
