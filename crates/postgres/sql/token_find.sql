-- token_find.sql: the token whose secret has the hash $1, whether any token was ever created (one that is deleted leaves another one
-- behind), and the time. One row always. Locks: nothing. Index: the hash's; the primary key.
select token.id, token.name, token.prefix, token.granted, token.rate, token.created_at, token.expires_at, token.last_used_at, token.revoked_at,
       exists (select from turnwise.token), turnwise.now()
  from (values (true)) as always
  left join turnwise.token on token.hash = $1
