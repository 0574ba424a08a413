-- enqueue_ended_between.sql: whether there is a finished job among these ids. Index: primary key.
select exists (select 1 from turnwise_history where id between ?1 and ?2)
