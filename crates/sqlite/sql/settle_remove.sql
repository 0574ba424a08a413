-- settle_remove.sql: deletes a job from the unfinished ones. Guard: the fence. Index: primary key.
delete from turnwise_job where seq = ?1 and fence = ?2
