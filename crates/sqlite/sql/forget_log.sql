-- forget_log.sql: deletes the log of a job that is gone. Index: primary key.
delete from turnwise_log where job = ?1
