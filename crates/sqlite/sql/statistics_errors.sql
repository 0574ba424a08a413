-- statistics_errors.sql: errors of rows that begin from ?2 on and before ?3. Index: primary key.
select queue, task, fingerprint, count, first_seen, last_seen, at
  from turnwise_statistics_error
 where span = ?1 and at >= ?2 and at < ?3
 order by at, queue, task, fingerprint, term
 limit ?4
