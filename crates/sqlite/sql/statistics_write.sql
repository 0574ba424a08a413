-- statistics_write.sql: writes a row, in place of one of the same names. Index: primary key.
insert into turnwise_statistics (span, kind, queue, at, name, term, sums)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    on conflict do update set sums = excluded.sums
