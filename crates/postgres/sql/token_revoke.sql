-- token_revoke.sql: takes a token back; the first time stays. Locks: its row. Index: primary key.
update turnwise.token set revoked_at = coalesce(revoked_at, turnwise.now()) where id = $1
returning id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at
