-- 0022_statistics.sql: statistics, and the fingerprints of errors beside the changes. The columns are explained in schema.sql.
alter table turnwise_change add column errors blob not null default x'';

create table turnwise_statistics (
    span  integer not null,
    kind  integer not null,
    queue text not null,
    at    integer not null,
    name  text not null,
    term  integer not null,
    sums  blob not null,
    primary key (span, kind, queue, at, name, term)
) strict, without rowid;

create index turnwise_statistics_at on turnwise_statistics (span, kind, at, queue, name, term);

create table turnwise_statistics_error (
    span        integer not null,
    at          integer not null,
    queue       text not null,
    task        text not null,
    fingerprint text not null,
    term        integer not null,
    count       integer not null,
    first_seen  integer not null,
    last_seen   integer not null,
    primary key (span, at, queue, task, fingerprint, term)
) strict, without rowid;

create table turnwise_statistics_total (
    queue text not null,
    kind  integer not null,
    name  text not null,
    sums  blob not null,
    primary key (queue, kind, name)
) strict, without rowid;

create table turnwise_statistics_writer (
    one   integer primary key check (one = 1),
    epoch integer not null,
    term  integer not null
) strict;

insert into turnwise_statistics_writer (one, epoch, term) values (1, 0, 0);
