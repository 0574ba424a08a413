-- statistics_write.sql: writes rows, in place of those of the same names. Locks: these rows. Index: primary key.
insert into turnwise.statistics (span, at, term, kind, queue, name, sums)
select $1, $2, $3, kind, queue, name, sums
  from unnest($4::smallint[], $5::text[], $6::text[], $7::bytea[]) as t (kind, queue, name, sums)
    on conflict (span, kind, queue, at, name, term) do update set sums = excluded.sums
