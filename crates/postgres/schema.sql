-- The whole schema as it stands after the last migration. A test compares the two.
create schema turnwise;

create table turnwise.migration (
    version    int primary key,
    name       text not null,
    applied_at timestamptz not null default pg_catalog.now()
);

-- The one clock: every statement and default asks it. Tests replace it by a clock they move by hand.
create function turnwise.now() returns timestamptz
    language sql stable parallel safe
    as 'select pg_catalog.now()';

-- Unfinished jobs only. No index names state, node or fence, so that taking a job is a HOT update; the free part of a
-- page is where the taken version of each of its rows finds room. It is larger than the first (node, assigned_at): at
-- fillfactor 50 one in eleven found none. args is json, not jsonb: kept to the letter.
-- key is the limit the job counts against; terms is what few jobs have (a time limit, a step to follow); expires_at is
-- when it must have begun, and null once it has; fingerprint is the same for errors of one kind.
create table turnwise.job (
    id               uuid primary key,
    seq              bigint generated always as identity,
    xact             xid8 not null default pg_current_xact_id(),
    task             text not null check (octet_length(task) between 1 and 200),
    queue            text not null check (octet_length(queue) between 1 and 200),
    grp              text not null check (octet_length(grp) between 1 and 200),
    priority         smallint not null check (priority between 1 and 10),
    args             json not null,
    retry            text check (retry ~ '^(manual|none|exponential:[^,]+,.+|durations:.+)$'),
    state            smallint not null default 0 check (state between 0 and 3),
    attempt          int not null default 0,
    retries          int not null default 0,
    crashes          int not null default 0,
    fence            bigint not null default 0,
    cancel_requested boolean not null default false,
    node             uuid,
    error            text,
    submitted_at     timestamptz not null default turnwise.now(),
    due_at           timestamptz,
    assigned_at      timestamptz,
    started_at       timestamptz,
    finished_at      timestamptz,
    key              text check (octet_length(key) between 1 and 200),
    terms            text,
    expires_at       timestamptz,
    fingerprint      text
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- The tail: what a snapshot could not see yet.
create index job_xact on turnwise.job (xact);

create table turnwise.history (
    id               uuid primary key,
    seq              bigint not null,
    task             text not null,
    queue            text not null,
    grp              text not null,
    priority         smallint not null,
    args             json not null,
    retry            text,
    state            smallint not null check (state between 4 and 6),
    attempt          int not null,
    retries          int not null,
    crashes          int not null,
    fence            bigint not null,
    cancel_requested boolean not null,
    node_name        text,
    result           json,
    error            text,
    submitted_at     timestamptz not null,
    due_at           timestamptz,
    assigned_at      timestamptz,
    started_at       timestamptz,
    finished_at      timestamptz,
    ended_at         timestamptz not null,
    key              text,
    terms            text,
    expires_at       timestamptz,
    fingerprint      text
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1
);

create index history_ended_at on turnwise.history (ended_at);

create table turnwise.node (
    incarnation    uuid primary key,
    name           text not null,
    host           text not null,
    slots          bigint not null,
    queue_capacity bigint not null,
    queues         text[],
    tasks          text[] not null,
    joined_at      timestamptz not null,
    lease_until    timestamptz not null,
    lost           boolean not null default false
) with (fillfactor = 50);

-- A name is alive once, whoever asks first.
create unique index node_name on turnwise.node (name) where not lost;

create table turnwise.dispatcher (
    only_one boolean primary key default true check (only_one),
    holder   uuid,
    epoch    bigint not null default 0,
    until    timestamptz,
    asleep   boolean not null default false
) with (fillfactor = 50);

insert into turnwise.dispatcher default values;

create table turnwise.assignment (
    node   uuid not null,
    batch  uuid not null,
    jobs   uuid[] not null,
    cancel uuid[] not null default '{}',
    limited boolean[] not null default '{}',
    primary key (node, batch)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One row for each settled batch, so that a dispatcher elsewhere learns of it. ran is in microseconds. memos: no batch,
-- but memos were written. failed stands beside jobs and ran, and may be shorter: the rest did not fail.
create table turnwise.change (
    seq    bigint generated always as identity,
    xact   xid8 not null default pg_current_xact_id(),
    told   bigint,
    jobs   uuid[] not null,
    ran    bigint[] not null,
    memos  boolean not null default false,
    failed boolean[] not null default '{}'
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index change_xact on turnwise.change (xact);

-- Settings and charges, which only core reads. Kinds: 0 installation, 1 queue, 2 group, 3 task, 4 key, 5 charge, 6 a
-- group that takes no jobs. Names sort by their bytes, as everywhere else.
create table turnwise.memo (
    kind    smallint not null,
    name    text collate "C" not null,
    value   text not null,
    version bigint not null,
    primary key (kind, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Runs that ended in something else than success; fence is the one the run had. The failure is the chain of its causes
-- and its place.
create table turnwise.attempt (
    job         uuid not null,
    fence       bigint not null,
    number      int not null,
    task        text not null,
    ending      smallint not null,
    node_name   text,
    started_at  timestamptz,
    finished_at timestamptz,
    chain       json,
    place       text,
    primary key (job, fence)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Lines, numbered by the run that wrote them.
create table turnwise.log (
    job    uuid not null,
    fence  bigint not null,
    number bigint not null,
    at     timestamptz not null,
    level  smallint not null,
    text   text not null,
    primary key (job, fence, number)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Results of the finished steps of a job's present task. Names sort by their bytes, as everywhere else.
create table turnwise.step (
    job    uuid not null,
    name   text collate "C" not null,
    result json not null,
    primary key (job, name)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- How far a job has come; done is null where it has not said. dropped: lines of its log that are not kept any more.
create table turnwise.progress (
    job     uuid primary key,
    done    bigint,
    total   bigint,
    text    text,
    dropped bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A version 7 id: milliseconds, then the fraction of the millisecond (RFC 9562, 6.2 method 3), then chance.
create function turnwise.new_id() returns uuid
    language sql volatile
    as $$
    select encode(
        overlay(
            uuid_send(gen_random_uuid())
            placing substring(int8send(clock.micros / 1000) from 3)
                || int2send((28672 + clock.micros % 1000 * 4096 / 1000)::smallint)
            from 1 for 8),
        'hex')::uuid
      from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as micros) as clock
    $$;

-- Which history of commits the database goes on: the timeline. A failover or a restore begins a new one, and may have taken
-- back what was committed last; a dispatcher from before must read everything again. An epoch is this times a billion, and
-- the term. Where the server does not tell, it is 0: there a dispatcher notices only when its lease has run out.
do $do$
begin
    perform pg_walfile_name(pg_current_wal_lsn());
    create function turnwise.lineage() returns bigint
        language sql stable
        as $$ select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint $$;
exception when others then
    create function turnwise.lineage() returns bigint language sql stable as 'select 0::bigint';
end
$do$;

-- Ends a submit with the sentence of its group's memo; a function, so that one statement can store and refuse.
create function turnwise.refuse(sentence text) returns boolean
    language plpgsql volatile
    as $$ begin raise exception using message = sentence, errcode = 'TW001'; end $$;

-- Submits one job in the caller's transaction: for every language that can call a function. Error TW001: the group is
-- full, and the message says so.
create function turnwise.enqueue(
    task     text,
    args     json default 'null',
    queue    text default 'default',
    "group"  text default 'default',
    priority int default 5,
    due      timestamptz default null,
    retry    text default null,
    key      text default null,
    expires  timestamptz default null
) returns uuid
    language sql volatile
    as $$
    with stored as (
        insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry, key, expires_at)
        values (turnwise.new_id(), enqueue.task, coalesce(enqueue.args, 'null'), enqueue.queue, enqueue."group",
                enqueue.priority, coalesce(enqueue.due, turnwise.now()), enqueue.retry, enqueue.key, enqueue.expires)
        returning id, grp
    ), refused as materialized (
        select turnwise.refuse(memo.value)
          from stored
          join turnwise.memo on memo.kind = 6 and memo.name = stored.grp
    ), rung as materialized (
        select pg_notify('turnwise', 'news') from turnwise.dispatcher where asleep
    )
    select stored.id
      from stored
     where (select count(*) from refused) >= 0 and (select count(*) from rung) >= 0
    $$;
