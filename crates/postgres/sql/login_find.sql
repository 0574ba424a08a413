-- login_find.sql: the log-in whose secret has the hash $1, its token, and the time. Locks: nothing. Index: primary keys.
select token.id, token.name, token.prefix, token.granted, token.rate, token.created_at, token.expires_at, token.last_used_at, token.revoked_at,
       login.until, turnwise.now()
  from turnwise.login
  join turnwise.token on token.id = login.token
 where login.hash = $1
