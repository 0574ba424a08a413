-- story_steps.sql: the finished steps of a job, by name. Index: primary key.
select name, result from turnwise_step where job = ?1 order by name
