-- list_edge_group.sql: as list_edge_jobs.sql, for list_group.sql, of the group $3. Locks: nothing. Index: job_group.
select id
  from turnwise.job
 where (grp collate "C", uuid_send(id)) >= ($3::text, ''::bytea) and (grp collate "C", uuid_send(id)) <= ($3, uuid_send($1))
 order by grp collate "C" desc, uuid_send(id) desc
offset $2::bigint - 1
 limit 1
