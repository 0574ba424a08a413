-- move_count_on.sql: new jobs come after all that have ended as well. Reads all of history, once in a move.
update sqlite_sequence
   set seq = max(seq, coalesce((select max(seq) from turnwise_history), 0))
 where name = 'turnwise_job'
