-- 0018_logins.sql: people who are logged in to a page. The columns are explained in schema.sql.
create table turnwise_login (
    hash  blob primary key not null,
    token blob not null,
    until integer not null
) strict, without rowid;
