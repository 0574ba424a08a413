-- login_create.sql: stores a log-in unless it is there. Index: primary key.
insert into turnwise_login (hash, token, until) values (?1, ?2, ?3) on conflict (hash) do nothing
