-- move_finish.sql: everything is in the target.
update turnwise_move set finished = 1 where id = ?1
