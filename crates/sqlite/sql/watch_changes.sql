-- watch_changes.sql: changes from number ?1 on, also those that the dispatcher knows already. Index: primary key.
select jobs, failed, memos, otherwise, errors
  from turnwise_change
 where seq >= ?1
 order by seq
