-- note_line.sql: writes one line of a job's log, unless it is there already. Index: primary key.
insert into turnwise_log (job, fence, number, at, level, text)
values (?1, ?2, ?3, ?4, ?5, ?6)
    on conflict (job, fence, number) do nothing
