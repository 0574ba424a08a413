-- login_delete.sql: ends a log-in. Locks: its row. Index: primary key.
delete from turnwise.login where hash = $1
