-- key_any.sql: whether any job has a unique key. Index: primary key.
select exists (select 1 from turnwise_unique_key where scope > '')
