-- token.sql: the token with this id. Index: primary key.
select id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at
  from turnwise_token where id = ?1
