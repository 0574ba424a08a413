-- move_delete.sql: the move ?1 was given up.
delete from turnwise_move where id = ?1
