-- enqueue_waits.sql: a new job waits for others: enqueue_after.sql says for whom. Index: unique id.
update turnwise_job set on_failure = ?2 where id = ?1
