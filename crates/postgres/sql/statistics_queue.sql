-- statistics_queue.sql: as statistics.sql, of the queue $7. Locks: nothing. Index: primary key.
select at, queue, kind, name, sums
  from turnwise.statistics
 where span = $1 and kind = $2 and queue = $7 and at >= $3 and at < $4
   and ($6::text[] is null or name = any ($6))
 order by at, name, term
 limit $5
