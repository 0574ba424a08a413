-- move_written.sql: the triggers refuse changes again. Locks: the row.
update turnwise.move set writing = false
