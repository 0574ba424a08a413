-- 0017_operators.sql: tables for operators: tokens, and submits that are done once; jobs by their kind of error. The columns
-- are explained in schema.sql.
create table turnwise_token (
    id           blob primary key not null,
    hash         blob not null unique,
    name         text not null,
    prefix       text not null,
    granted      text not null,
    rate         integer,
    created_at   integer not null,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
) strict, without rowid;

create table turnwise_once (
    caller  blob not null,
    key     text not null,
    body    blob not null,
    answers blob not null,
    at      integer not null,
    primary key (caller, key)
) strict, without rowid;

create index turnwise_once_at on turnwise_once (at);

create index turnwise_job_fingerprint on turnwise_job (fingerprint, id) where fingerprint is not null;
create index turnwise_history_fingerprint on turnwise_history (fingerprint, id) where state = 5;
