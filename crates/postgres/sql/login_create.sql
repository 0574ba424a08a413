-- login_create.sql: stores a log-in unless it is there. Locks: its row. Index: primary key.
insert into turnwise.login (hash, token, until) values ($1, $2, $3) on conflict (hash) do nothing
