-- statistics_oldest_error.sql: the oldest row of an error that began before ?2. Index: primary key.
select at from turnwise_statistics_error where span = ?1 and at < ?2 order by at limit 1
