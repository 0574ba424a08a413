-- login_delete.sql: ends a log-in. Index: primary key.
delete from turnwise_login where hash = ?1
