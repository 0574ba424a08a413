-- list_edge_failed.sql: as list_edge_jobs.sql, for list_failed.sql. Locks: nothing. Index: history_failed_fingerprint.
select id from turnwise.history_failed where fingerprint = $3 and id <= $1 order by id desc offset $2::bigint - 1 limit 1
