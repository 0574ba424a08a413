-- story_steps.sql: the results of a job's finished steps. Locks: nothing. Index: primary key.
select name, result from turnwise.step where job = $1 order by name
