-- forget_attempts.sql: deletes the attempts of a job that is gone. Index: primary key.
delete from turnwise_attempt where job = ?1
