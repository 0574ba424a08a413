-- forget_progress.sql: deletes the progress of a job that is gone. Index: primary key.
delete from turnwise_progress where job = ?1
