-- logins.sql: how many log-ins there are, without this one. Index: none, there are few.
select count(*) from turnwise_login where hash <> ?1
