-- bearer_find.sql: the ticket whose bearer has this hash. Index: unique bearer.
select token, granted, origins, until from turnwise_ticket where bearer = ?1
