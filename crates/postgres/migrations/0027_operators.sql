-- 0027_operators.sql: tables for operators: tokens, and submits that are done once. The columns are explained in schema.sql.
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

create table turnwise.once (
    caller  uuid not null,
    key     text collate "C" not null,
    body    bytea not null,
    answers bytea not null,
    at      timestamptz not null default turnwise.now(),
    primary key (caller, key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index once_at on turnwise.once (at);
