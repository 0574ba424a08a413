-- list_edge_history.sql: as list_edge_jobs.sql, for list_history.sql. Locks: nothing. Index: history_pkey.
select id
  from turnwise.history
 where id <= $1 and state in (($3::smallint[])[1], ($3::smallint[])[2], ($3::smallint[])[3])
 order by id desc
offset $2::bigint - 1
 limit 1
