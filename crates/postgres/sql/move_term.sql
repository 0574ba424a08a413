-- move_term.sql: the next term that counts has another number than those that have counted. Locks: the row. Reads all statistics, once in
-- a move.
update turnwise.statistics_writer
   set term = greatest(term, (select max(term) from turnwise.statistics), (select max(term) from turnwise.statistics_error))
