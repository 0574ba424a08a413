-- tokens.sql: all tokens, newest first, and the time. Locks: nothing. Index: none; they are few.
select id, name, prefix, granted, rate, created_at, expires_at, last_used_at, revoked_at,
       turnwise.now()
  from turnwise.token
 order by created_at desc, id desc
 limit $1
