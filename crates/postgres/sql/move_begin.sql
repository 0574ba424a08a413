-- move_begin.sql: this database is a side of a move from now on; of an earlier one nothing is kept. Locks: the row. Index: primary key.
insert into turnwise.move (id, side, other, position, refusal, finished) values ($1, $2, $3, $4, $5, false)
on conflict (only_one) do update
   set id = excluded.id, side = excluded.side, other = excluded.other, position = excluded.position, refusal = excluded.refusal,
       finished = false
