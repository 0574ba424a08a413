-- story_progress.sql: how far a job has come, and how many lines of its log were dropped. Locks: nothing. Index: primary key.
select done, total, text, dropped from turnwise.progress where job = $1
