-- move_begin.sql: this database is a side of a move from now on; of an earlier one nothing is kept.
insert or replace into turnwise_move (one, id, side, other, position, finished) values (1, ?1, ?2, ?3, ?4, 0)
