-- move_written.sql: the triggers refuse changes again.
update turnwise_move set writing = 0
