-- statistics_write_errors.sql: writes how often an error was seen, in place of what was written before. Index: primary key.
insert into turnwise_statistics_error (span, at, queue, task, fingerprint, term, count, first_seen, last_seen)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    on conflict do update set count = excluded.count, first_seen = excluded.first_seen, last_seen = excluded.last_seen
