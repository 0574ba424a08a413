-- move_write.sql: how far the target $1 has got, if it had got to $2. The triggers make way until move_written.sql, in the same
-- transaction. Locks: the row: another mover waits, and finds the other position then.
update turnwise.move set position = $3, writing = true where id = $1 and side = 1 and not finished and position = $2
