-- 0004_stories.sql: terms of jobs, the time they must have begun by, what kind of failure they had; and what they tell of
-- their runs. The columns are explained in schema.sql.

alter table turnwise_job add column terms text;

alter table turnwise_job add column expires_at integer;

alter table turnwise_job add column fingerprint text;

alter table turnwise_history add column terms text;

alter table turnwise_history add column expires_at integer;

alter table turnwise_history add column fingerprint text;

create table turnwise_attempt (
    job         blob not null,
    fence       integer not null,
    number      integer not null,
    task        text not null,
    ending      integer not null,
    node_name   text,
    started_at  integer,
    finished_at integer,
    chain       text,
    place       text,
    primary key (job, fence)
) strict, without rowid;

create table turnwise_log (
    job    blob not null,
    fence  integer not null,
    number integer not null,
    at     integer not null,
    level  integer not null,
    text   text not null,
    primary key (job, fence, number)
) strict, without rowid;

create table turnwise_step (
    job    blob not null,
    name   text not null,
    result text not null,
    primary key (job, name)
) strict, without rowid;

create table turnwise_progress (
    job     blob primary key not null,
    done    integer,
    total   integer,
    text    text,
    dropped integer not null
) strict, without rowid;
