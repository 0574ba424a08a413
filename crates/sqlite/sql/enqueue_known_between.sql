-- enqueue_known_between.sql: whether there is an unfinished job among these ids. Index: unique id.
select exists (select 1 from turnwise_job where id between ?1 and ?2)
