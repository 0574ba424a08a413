-- once_take.sql: takes a key that is free, or older than $4 microseconds; no row: it is in use. A key that another transaction is taking
-- is waited for, by lock_timeout. Locks: the key's row. Index: primary key.
insert into turnwise.once (caller, key, body, answers)
values ($1, $2, $3, '')
    on conflict (caller, key) do update set body = excluded.body, answers = '', at = excluded.at
 where once.at + $4::bigint * interval '1 microsecond' <= turnwise.now()
returning 1
