-- token_revoke.sql: takes a token back; the first time stays. The last column: whether this is the first time. Locks: its row.
-- Index: primary key.
with before as materialized (
    select id, revoked_at is null as fresh from turnwise.token where id = $1 for update
)
update turnwise.token
   set revoked_at = coalesce(revoked_at, turnwise.now())
  from before
 where token.id = before.id
returning token.id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at, before.fresh
