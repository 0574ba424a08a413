-- note_progress.sql: writes how far a run has come; replaces what was noted before. Index: primary key.
insert into turnwise_progress (job, done, total, text, dropped)
values (?1, ?2, ?3, ?4, 0)
    on conflict (job) do update set done = excluded.done, total = excluded.total, text = excluded.text
