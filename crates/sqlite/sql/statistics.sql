-- statistics.sql: rows of a kind that begin from ?3 on and before ?4, of all queues; of the names in
-- the JSON array ?6, null: of all names. Index: turnwise_statistics_at.
select at, queue, kind, name, sums
  from turnwise_statistics
 where span = ?1 and kind = ?2 and at >= ?3 and at < ?4
   and (?6 is null or name in (select value from json_each(?6)))
 order by at, queue, name, term
 limit ?5
