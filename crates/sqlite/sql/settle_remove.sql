-- settle_remove.sql: an unfinished job that is no longer one. Guard: the fence. Index: primary key.
delete from turnwise_job where seq = ?1 and fence = ?2
