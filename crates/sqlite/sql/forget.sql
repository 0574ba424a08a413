-- forget.sql: deletes a job from history. Index: primary key.
delete from turnwise_history where id = ?1
