-- 0028_logins.sql: people who are logged in to a page. The columns are explained in schema.sql.
create table turnwise.login (
    hash  bytea primary key,
    token uuid not null,
    until timestamptz not null
);
