-- tokens.sql: all tokens, newest first. Index: none; they are few.
select id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at
  from turnwise_token
 order by created_at desc, id desc
 limit ?1
