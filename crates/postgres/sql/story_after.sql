-- story_after.sql: which jobs a job waits or waited for. Locks: nothing. Index: primary key.
select awaits, on_failure from turnwise.dependency where job = $1
