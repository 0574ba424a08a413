-- token_create.sql: stores a token. Index: primary key.
insert into turnwise_token (id, hash, name, prefix, granted, rate, created_at, expires_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
