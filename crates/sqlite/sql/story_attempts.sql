-- story_attempts.sql: the attempts of a job, in the order of its runs. Index: primary key.
select fence, number, task, ending, node_name, started_at, finished_at, chain, place
  from turnwise_attempt
 where job = ?1
 order by fence
