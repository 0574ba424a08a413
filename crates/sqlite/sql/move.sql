-- move.sql: the move that this database is in, or was in last.
select id, side, other, position, finished from turnwise_move
