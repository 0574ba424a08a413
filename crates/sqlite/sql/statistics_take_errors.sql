-- statistics_take_errors.sql: takes out the rows of errors that begin from ?2 on and before ?3, to be merged. Index: primary key.
delete from turnwise_statistics_error
 where span = ?1 and at >= ?2 and at < ?3
returning queue, task, fingerprint, count, first_seen, last_seen
