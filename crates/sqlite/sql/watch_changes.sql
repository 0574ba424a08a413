-- watch_changes.sql: changes from number ?1 on, whoever knows of them already. Index: primary key.
select jobs, failed, memos, otherwise, errors
  from turnwise_change
 where seq >= ?1
 order by seq
