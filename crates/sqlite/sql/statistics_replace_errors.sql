-- statistics_replace_errors.sql: deletes what a dispatcher wrote of the errors of a minute. Index: primary key.
delete from turnwise_statistics_error where span = 0 and at = ?1 and term = ?2
