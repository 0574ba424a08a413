-- tickets.sql: how many tickets and bearers there are without the ticket ?1, and how many of them of the token ?2. Index: none, there are few.
select count(*), count(*) filter (where token = ?2) from turnwise_ticket where hash <> ?1
