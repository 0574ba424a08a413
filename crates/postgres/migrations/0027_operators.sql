-- 0027_operators.sql: tables for operators: tokens, and submits that are done once; jobs by their kind of
-- error; ids of the future are refused. The columns are explained in schema.sql.
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

create index history_failed_fingerprint on turnwise.history_failed (fingerprint, id);

create function turnwise.refuse_ahead(ids uuid[]) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    as $$
    begin
        if exists (
           select from turnwise.job
            where job.id = any (ids) and job.xact = pg_current_xact_id()
              and ('x' || encode(substr(uuid_send(job.id), 1, 6), 'hex'))::bit(48)::bigint - 60000
                  > extract(epoch from turnwise.now()) * 1000)
        then
            perform turnwise.refuse('id: is more than a minute ahead of the database''s time; '
                || 'make ids of the present, or let Turnwise make them');
        end if;
        return true;
    end
    $$;
