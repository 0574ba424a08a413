-- note_dropped.sql: adds to the number of lines of a job that were dropped. Index: primary key.
insert into turnwise_progress (job, dropped)
values (?1, ?2)
    on conflict (job) do update set dropped = dropped + excluded.dropped
