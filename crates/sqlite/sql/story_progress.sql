-- story_progress.sql: how far a run has come, and how many lines were dropped. Index: primary key.
select done, total, text, dropped from turnwise_progress where job = ?1
