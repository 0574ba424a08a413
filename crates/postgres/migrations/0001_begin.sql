-- Not "if not exists", which needs the right to create schemas even where there is one already: made by an administrator for a
-- role that has only that.
do $$
begin
    if not exists (select from pg_catalog.pg_namespace where nspname operator(pg_catalog.=) 'turnwise') then
        create schema turnwise;
    end if;
end
$$;

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
    finished_at      timestamptz
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
    ended_at         timestamptz not null
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
    primary key (node, batch)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One row for each settled batch, so that a dispatcher elsewhere learns of it. ran is in microseconds.
create table turnwise.change (
    seq  bigint generated always as identity,
    xact xid8 not null default pg_current_xact_id(),
    told bigint,
    jobs uuid[] not null,
    ran  bigint[] not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index change_xact on turnwise.change (xact);

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

-- Submits one job in the caller's transaction: for every language that can call a function.
create function turnwise.enqueue(
    task     text,
    args     json default 'null',
    queue    text default 'default',
    "group"  text default 'default',
    priority int default 5,
    due      timestamptz default null,
    retry    text default null
) returns uuid
    language sql volatile
    as $$
    with stored as (
        insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry)
        values (turnwise.new_id(), enqueue.task, coalesce(enqueue.args, 'null'), enqueue.queue, enqueue."group",
                enqueue.priority, coalesce(enqueue.due, turnwise.now()), enqueue.retry)
        returning id
    ), rung as materialized (
        select pg_notify('turnwise', 'news') from turnwise.dispatcher where asleep
    )
    select stored.id from stored where (select count(*) from rung) >= 0
    $$;
