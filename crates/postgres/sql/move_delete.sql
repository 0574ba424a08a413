-- move_delete.sql: the move $1 was given up. Locks: the row.
delete from turnwise.move where id = $1
