-- statistics_write_errors.sql: writes how often errors were seen, in place of what was written before. Locks: these rows.
-- Index: primary key.
insert into turnwise.statistics_error (span, at, term, queue, task, fingerprint, count, first_seen, last_seen)
select $1, $2, $3, queue, task, fingerprint, count, first_seen, last_seen
  from unnest($4::text[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[], $9::timestamptz[])
       as t (queue, task, fingerprint, count, first_seen, last_seen)
    on conflict (span, at, queue, task, fingerprint, term)
    do update set count = excluded.count, first_seen = excluded.first_seen, last_seen = excluded.last_seen
