-- statistics_oldest.sql: the oldest row of a kind that began before $3. Locks: nothing. Index: statistics_at.
select at, queue from turnwise.statistics where span = $1 and kind = $2 and at < $3 order by at limit 1
