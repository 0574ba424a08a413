-- news_changes.sql: what others changed beyond the cursor, without what the dispatcher of epoch ?2 was told. Index: primary key.
select jobs, failed, memos, otherwise
  from turnwise_change
 where seq > ?1 and told is not ?2
 order by seq
