-- news_changes.sql: changes beyond the cursor, without those that the dispatcher of epoch ?2 knows already. Index: primary key.
select jobs, failed, memos, otherwise, errors
  from turnwise_change
 where seq > ?1 and told is not ?2
 order by seq
