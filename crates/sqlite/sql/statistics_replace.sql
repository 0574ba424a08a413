-- statistics_replace.sql: deletes what a dispatcher wrote of a minute. Index: turnwise_statistics_at, for each kind.
delete from turnwise_statistics where span = 0 and kind in (0, 1, 2, 3) and at = ?1 and term = ?2
