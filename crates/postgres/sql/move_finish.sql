-- move_finish.sql: everything is in the target; $2: what the source says from now on. Locks: the row.
update turnwise.move set finished = true, refusal = $2 where id = $1
