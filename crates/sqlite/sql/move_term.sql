-- move_term.sql: the next term that counts has another number than those that have counted. Reads all statistics, once in a move.
update turnwise_statistics_writer
   set term = max(term, coalesce((select max(term) from turnwise_statistics), 0),
                  coalesce((select max(term) from turnwise_statistics_error), 0))
