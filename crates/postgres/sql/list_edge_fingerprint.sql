-- list_edge_fingerprint.sql: as list_edge_jobs.sql, for list_fingerprint.sql. Locks: nothing. Index: job_fingerprint.
select id from turnwise.job where fingerprint = $3 and id <= $1 order by id desc offset $2::bigint - 1 limit 1
