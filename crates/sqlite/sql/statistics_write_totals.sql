-- statistics_write_totals.sql: writes a running total. Index: primary key.
insert into turnwise_statistics_total (queue, kind, name, sums)
values (?1, ?2, ?3, ?4)
    on conflict do update set sums = excluded.sums
