-- story_awaited_by.sql: the first $2 jobs, by id, that wait or waited for a job. Locks: nothing. Index: dependency_awaits.
select job from turnwise.dependency where awaits = $1 order by job limit $2
