-- list_edge_jobs.sql: the id of the $2th unfinished job from id $1 down: how far list_jobs.sql looks. Locks: nothing. Index: primary key.
select id from turnwise.job where id <= $1 order by id desc offset $2::bigint - 1 limit 1
