-- What a job has to tell: failures told apart, attempts, log, finished steps, progress. Terms of its own, and a time to
-- begin by.
alter table turnwise.job add column terms text;
alter table turnwise.job add column expires_at timestamptz;
alter table turnwise.job add column fingerprint text;
alter table turnwise.history add column terms text;
alter table turnwise.history add column expires_at timestamptz;
alter table turnwise.history add column fingerprint text;

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

-- A parameter more makes it another function; two of one name could not be told apart by a call that leaves the last
-- one out. Rights that were granted on the old one are to be granted on this one again.
drop function turnwise.enqueue(text, json, text, text, int, timestamptz, text, text);

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
