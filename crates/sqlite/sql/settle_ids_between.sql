-- settle_ids_between.sql: unfinished jobs from one id to another. Index: unique id, which holds all that is asked for.
select id from turnwise_job where id between ?1 and ?2 order by id
