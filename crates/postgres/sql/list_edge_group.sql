-- list_edge_group.sql: as list_edge_jobs.sql, for list_group.sql, of the group $3. Locks: nothing. Index: job_group.
select id
  from turnwise.job
 where (grp collate "C", id) >= ($3::text, '00000000-0000-0000-0000-000000000000'::uuid) and (grp collate "C", id) <= ($3, $1)
 order by grp collate "C" desc, id desc
offset $2::bigint - 1
 limit 1
