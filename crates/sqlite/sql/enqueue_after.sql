-- enqueue_after.sql: records that a job waits for another. Index: primary key.
insert into turnwise_dependency (job, awaits, on_failure) values (?1, ?2, ?3) on conflict do nothing
