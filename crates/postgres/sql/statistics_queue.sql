-- statistics_queue.sql: as statistics.sql, of the queue $6. Locks: nothing. Index: primary key.
select at, queue, kind, name, sums
  from turnwise.statistics
 where span = $1 and kind = $2 and queue = $6 and at >= $3 and at < $4
 order by at, name, term
 limit $5
