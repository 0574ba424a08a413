-- 0027_operators.sql: tables for operators: tokens. The columns are explained in schema.sql.
create table turnwise.token (
    id           uuid primary key,
    hash         bytea not null unique,
    name         text not null,
    prefix       text not null,
    granted      text not null,
    rate         bigint,
    created_at   timestamptz not null default turnwise.now(),
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
) with (fillfactor = 50);
