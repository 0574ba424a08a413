-- logins_of_token.sql: the log-ins of the token ?2 and when they end, without the log-in ?1. Index: none, there are few.
select hash, until from turnwise_login where token = ?2 and hash <> ?1
