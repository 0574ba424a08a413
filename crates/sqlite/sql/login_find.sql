-- login_find.sql: the log-in whose secret has this hash. Index: primary key.
select token, until from turnwise_login where hash = ?1
