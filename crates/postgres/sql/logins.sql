-- logins.sql: how many log-ins there are, without this one. Locks: nothing. Index: none, there are few.
select count(*) from turnwise.login where hash <> $1
