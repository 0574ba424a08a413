-- statistics.sql: rows of a kind that begin from $3 on and before $4, of all queues; of the names $6, null: of
-- all names. Locks: nothing. Index: statistics_at.
select at, queue, kind, name, sums
  from turnwise.statistics
 where span = $1 and kind = $2 and at >= $3 and at < $4
   and ($6::text[] is null or name = any ($6))
 order by at, queue, name, term
 limit $5
