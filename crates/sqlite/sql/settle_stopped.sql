-- settle_stopped.sql: a job that its node was asked to stop has settled. Index: unique (node, job).
delete from turnwise_stop_request where node = ?1 and job = ?2 and fence = ?3
