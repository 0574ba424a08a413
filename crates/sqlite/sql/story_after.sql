-- story_after.sql: which jobs a job waits or waited for. Index: primary key.
select awaits, on_failure from turnwise_dependency where job = ?1
