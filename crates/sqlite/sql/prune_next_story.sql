-- prune_next_story.sql: the first job from ?1 on, by id, that has a story. Index: primary keys.
select min(job)
  from (select min(job) as job from turnwise_attempt where job >= ?1
        union all
        select min(job) from turnwise_log where job >= ?1
        union all
        select min(job) from turnwise_step where job >= ?1
        union all
        select min(job) from turnwise_progress where job >= ?1
        union all
        select min(job) from turnwise_dependency where job >= ?1)
