-- token_find.sql: the token whose secret has this hash. Index: unique hash.
select id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at
  from turnwise_token where hash = ?1
