-- 0032_statistics.sql: statistics, and the fingerprints of errors beside the changes. The columns are explained in schema.sql.
alter table turnwise.change add column fingerprints text[];

create table turnwise.statistics (
    span  smallint not null,
    kind  smallint not null,
    queue text collate "C" not null,
    at    timestamptz not null,
    name  text collate "C" not null,
    term  bigint not null,
    sums  bytea not null,
    primary key (span, kind, queue, at, name, term)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index statistics_at on turnwise.statistics (span, kind, at, queue, name, term);

create table turnwise.statistics_error (
    span        smallint not null,
    at          timestamptz not null,
    queue       text collate "C" not null,
    task        text collate "C" not null,
    fingerprint text collate "C" not null,
    term        bigint not null,
    count       bigint not null,
    first_seen  timestamptz not null,
    last_seen   timestamptz not null,
    primary key (span, at, queue, task, fingerprint, term)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table turnwise.statistics_total (
    queue text collate "C" not null,
    kind  smallint not null,
    name  text collate "C" not null,
    sums  bytea not null,
    primary key (queue, kind, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table turnwise.statistics_writer (
    one   boolean primary key default true check (one),
    epoch bigint not null,
    term  bigint not null
);

insert into turnwise.statistics_writer (epoch, term) values (0, 0);
