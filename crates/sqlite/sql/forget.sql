-- forget.sql: a job that is no longer in history. Index: primary key.
delete from turnwise_history where id = ?1
