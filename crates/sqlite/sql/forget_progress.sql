-- forget_progress.sql: how far a job had come that is gone. Index: primary key.
delete from turnwise_progress where job = ?1
