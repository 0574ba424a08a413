-- token_create.sql: stores a token unless it is there, and deletes the tokens $8. Locks: these rows. Index: primary key.
with deleted as (
    delete from turnwise.token where id = any ($8::uuid[])
)
insert into turnwise.token (id, hash, name, prefix, granted, rate, expires_at)
values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (id) do nothing
