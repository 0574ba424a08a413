-- list_edge_group_history.sql: as list_edge_jobs.sql, for list_group_history.sql, of the group $3. Locks: nothing. Index: history_group.
select id
  from turnwise.history
 where (grp collate "C", id) >= ($3::text, '00000000-0000-0000-0000-000000000000'::uuid) and (grp collate "C", id) <= ($3, $1)
   and state in (($4::smallint[])[1], ($4::smallint[])[2], ($4::smallint[])[3])
 order by grp collate "C" desc, id desc
offset $2::bigint - 1
 limit 1
