-- move_write.sql: how far the target ?1 has got, if it had got to ?2. The triggers make way until move_written.sql, in the same transaction.
update turnwise_move set position = ?3, writing = 1 where id = ?1 and side = 1 and not finished and position = ?2
