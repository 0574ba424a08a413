-- prune_begin.sql: the time; and what a prune is refused with, for a move has closed the database. Locks: nothing.
select turnwise.now(), (select move.refusal from turnwise.move where not move.finished or move.side = 0)
