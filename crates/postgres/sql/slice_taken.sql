-- slice_taken.sql: whether the rest of history has what ended from $1 on and before $2: no slice can be made for it then.
-- (The name of the table is that of one state; the others' are put in its place.) Locks: nothing. Index: the rest's own.
select exists (select from turnwise.history_success_rest where ended_at >= $1 and ended_at < $2)
