-- statistics_write_totals.sql: writes running totals. Locks: these rows. Index: primary key. The update is HOT.
insert into turnwise.statistics_total (kind, queue, name, sums)
select kind, queue, name, sums
  from unnest($1::smallint[], $2::text[], $3::text[], $4::bytea[]) as t (kind, queue, name, sums)
    on conflict (queue, kind, name) do update set sums = excluded.sums
