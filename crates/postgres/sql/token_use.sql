-- token_use.sql: writes down that the tokens $1 are used, unless that was done in the last $2 microseconds. A row that another server
-- is writing to is left out: it writes the same. Locks: the rows, in id order. Index: primary key.
with used as materialized (
    select id
      from turnwise.token
     where id = any ($1::uuid[])
       and (last_used_at is null or last_used_at + $2::bigint * interval '1 microsecond' <= turnwise.now())
     order by id
       for no key update skip locked
)
update turnwise.token set last_used_at = turnwise.now() from used where token.id = used.id
