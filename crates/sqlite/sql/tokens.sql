-- tokens.sql: all tokens; the caller sorts them. Index: none; they are few.
select id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at
  from turnwise_token
 limit ?1
