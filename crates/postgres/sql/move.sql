-- move.sql: the move that this database is in, or was in last. Locks: nothing. One row at most.
select id, side, other, position, finished from turnwise.move
