-- note_step.sql: writes the result of a finished step; the first one stands. Index: primary key.
insert into turnwise_step (job, name, result)
values (?1, ?2, ?3)
    on conflict (job, name) do nothing
