-- enqueue_known.sql: whether a job is there, unfinished or finished. Index: unique id, primary key of history.
select exists (select 1 from turnwise_job where id = ?1) or exists (select 1 from turnwise_history where id = ?1)
