-- bearer_find.sql: the ticket whose bearer has the hash $1, its token, and the time. Locks: nothing. Index: the bearer's; the primary key.
select token.id, token.name, token.prefix, token.granted, token.rate, token.created_at, token.expires_at, token.last_used_at, token.revoked_at,
       ticket.granted, ticket.origins, ticket.until, turnwise.now()
  from turnwise.ticket
  join turnwise.token on token.id = ticket.token
 where ticket.bearer = $1
