-- enqueue_waits.sql: records that a new job waits for others; enqueue_after.sql records for which ones. Index: unique id.
update turnwise_job set on_failure = ?2 where id = ?1
