-- move_count_on.sql: new jobs come after all that were moved. Locks: nothing. Reads all jobs and all of history, once in a move.
select setval(pg_get_serial_sequence('turnwise.job', 'seq'), last.seq)
  from (
       select greatest((select max(seq) from turnwise.job), (select max(seq) from turnwise.history)) as seq
  ) as last
 where last.seq is not null
