-- note_dropped.sql: so many more lines of a job are not kept. Index: primary key.
insert into turnwise_progress (job, dropped)
values (?1, ?2)
    on conflict (job) do update set dropped = dropped + excluded.dropped
