-- The whole schema as it stands after the last migration. A test compares the two.
create schema turnwise;

create table turnwise.migration (
    version    int primary key,
    name       text not null,
    applied_at timestamptz not null default pg_catalog.now(),
    -- a binary that does not know this step does not work with the schema (docs/compatibility.md)
    breaks     boolean not null default false
);

-- The one clock: every statement and default asks it. Tests replace it by a clock they move by hand.
create function turnwise.now() returns timestamptz
    language sql stable parallel safe
    as 'select pg_catalog.now()';

-- The time of the call, where turnwise.now() is when the transaction began: a caller's may have been open for long.
create function turnwise.clock() returns timestamptz
    language sql volatile parallel safe
    as 'select pg_catalog.clock_timestamp()';

-- Unfinished jobs only. No index names state, node or fence, so that taking a job is a HOT update; the free part of a
-- page is where the taken version of each of its rows finds room. It is larger than the first (node, assigned_at): at
-- fillfactor 50 one in eleven found none. args is json, not jsonb: kept to the letter.
-- retry is the job's policy, 'task' if it names none and that of its task holds, and null (the default policy) only in rows from
-- before that. due_at is submitted_at if and only if the job names no time. fence grows by one with each assignment and node loss,
-- and by 10000000000 with each edit.
-- key is the limit the job counts against; terms is what few jobs have (a time limit, a step to follow); expires_at is
-- when it must have begun, and null once it has; fingerprint is the same for errors of one kind; on_failure is set if it
-- waits for those in dependency ('over': it did, until a person had it run again). No checks: they would be looked at with
-- every change of a row; what comes in is checked by its type, or by turnwise.enqueue.
create table turnwise.job (
    id               uuid primary key,
    seq              bigint generated always as identity,
    xact             xid8 not null default pg_current_xact_id(),
    task             text not null,
    queue            text not null,
    grp              text not null,
    priority         smallint not null,
    args             json not null,
    retry            text,
    state            smallint not null default 0,
    attempt          int not null default 0,
    retries          int not null default 0,
    crashes          int not null default 0,
    fence            bigint not null default 0,
    cancel_requested boolean not null default false,
    node             uuid,
    error            text,
    submitted_at     timestamptz not null default turnwise.now(),
    due_at           timestamptz default turnwise.now(),
    assigned_at      timestamptz,
    started_at       timestamptz,
    finished_at      timestamptz,
    key              text,
    terms            text,
    expires_at       timestamptz,
    fingerprint      text,
    on_failure       text
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- The tail: what a snapshot could not see yet.
create index job_xact on turnwise.job (xact);
-- The jobs of a group, newest first. Names go by their bytes: a comparison costs less than one by the rules of a language, and the index lasts
-- when those rules change. Neither column ever changes. Ids stand there as bytes, in the same order, so that no statement that looks jobs up by their
-- ids can go through this index instead of the primary key: of a table that was empty when it was vacuumed the planner takes both for as cheap.
create index job_group on turnwise.job (grp collate "C", uuid_send(id));

-- Finished jobs, by state, and within a state by slices of time that are made ahead and dropped whole; the rest takes what
-- ends when there is no slice for it. noted: whether anything may be told of the job in the tables below. The primary key is the index by
-- id; state and ended_at are in it because the parts go by them, and it is one so that logical replication can name a row: with the whole
-- row in its place (replica identity full) a replica cannot find it, for two json values cannot be compared.
create table turnwise.history (
    id               uuid not null,
    seq              bigint not null,
    task             text not null,
    queue            text not null,
    grp              text not null,
    priority         smallint not null,
    args             json not null,
    retry            text,
    state            smallint not null,
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
    fingerprint      text,
    noted            boolean not null default true,
    primary key (id, state, ended_at)
) partition by list (state);

-- Whose story has to go before the slice does.
create index history_noted on turnwise.history (id) where noted;
-- The ended jobs of a group, newest first.
create index history_group on turnwise.history (grp collate "C", id);

create table turnwise.history_success partition of turnwise.history for values in (4) partition by range (ended_at);
create table turnwise.history_failed partition of turnwise.history for values in (5) partition by range (ended_at);
create table turnwise.history_cancelled partition of turnwise.history for values in (6) partition by range (ended_at);
create table turnwise.history_success_rest partition of turnwise.history_success default;
create table turnwise.history_failed_rest partition of turnwise.history_failed default;
create table turnwise.history_cancelled_rest partition of turnwise.history_cancelled default;
create index history_success_rest_ended on turnwise.history_success_rest (ended_at);
create index history_failed_rest_ended on turnwise.history_failed_rest (ended_at);
create index history_cancelled_rest_ended on turnwise.history_cancelled_rest (ended_at);
-- Failed jobs by kind of error.
create index history_failed_fingerprint on turnwise.history_failed (fingerprint, id);

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
    lost           boolean not null default false,
    -- its queues are the ones it does not serve
    all_but        boolean not null default false,
    -- jobs it is given at once, at most
    batch_size     bigint,
    -- how long it is believed to live after each beat, in microseconds
    lease          bigint not null default 5000000,
    -- its tasks run in another program: what that says about them, as JSON
    worker         text
) with (fillfactor = 50);

-- A name is alive once: of several nodes that join under it, the first.
create unique index node_name on turnwise.node (name) where not lost;

-- Nodes that were lost, for a day: as they were when the dispatcher found them lost, how many jobs they had in their hands, and the
-- first of these. For people alone: nothing decides by it, so a node that is buried has no row in node.
create table turnwise.lost_node (
    incarnation    uuid primary key,
    name           text not null,
    host           text not null,
    slots          bigint not null,
    queue_capacity bigint not null,
    queues         text[],
    tasks          text[] not null,
    joined_at      timestamptz not null,
    lease_until    timestamptz not null,
    all_but        boolean not null,
    batch_size     bigint,
    lease          bigint not null,
    lost_at        timestamptz not null,
    held           bigint not null,
    jobs           uuid[] not null
);
create index lost_node_lost_at on turnwise.lost_node (lost_at);

create table turnwise.dispatcher (
    only_one boolean primary key default true check (only_one),
    holder   uuid,
    epoch    bigint not null default 0,
    until    timestamptz,
    asleep   boolean not null default false,
    -- the one that the holder was chosen in: in another, no node dispatches
    lineage  bigint,
    -- the advisory lock that a session of the holder's process has; null: its process cannot be seen
    session  bigint
) with (fillfactor = 50);

insert into turnwise.dispatcher default values;

create table turnwise.assignment (
    node   uuid not null,
    batch  uuid not null,
    jobs   uuid[] not null,
    limited boolean[] not null default '{}',
    primary key (node, batch)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Ids hardly shrink: to try costs more than to write them.
alter table turnwise.assignment
    alter column jobs set storage external,
    alter column limited set storage external;

-- Jobs that a person wants stopped while they are in a node's hands, at the fence of that time. Removed when the node settles them.
create table turnwise.stop_request (
    node  uuid not null,
    job   uuid not null,
    fence bigint not null,
    primary key (node, job)
);

-- One row for each settled batch, so that a dispatcher elsewhere learns of it. ran is in microseconds. memos: no batch,
-- but memos were written. failed stands beside jobs and ran: true for those whose run ended in an error (failed or stuck),
-- false for those that ended with success, null for the others; it may be shorter, with null for the rest. fingerprints: of the
-- errors, in the same way; null if there are none. The primary key is the index by xact; seq is in it because logical replication names
-- rows by their key.
create table turnwise.change (
    seq    bigint generated always as identity,
    xact   xid8 not null default pg_current_xact_id(),
    told   bigint,
    jobs   uuid[] not null,
    ran    bigint[] not null,
    memos  boolean not null default false,
    failed boolean[] not null default '{}',
    fingerprints text[],
    primary key (xact, seq)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

alter table turnwise.change
    alter column jobs set storage external,
    alter column ran set storage external,
    alter column failed set storage external;

-- One row: how far changes were deleted. All that was deleted is visible in seen, a snapshot of this lineage, so a watcher has missed
-- nothing if its own has seen as much.
create table turnwise.change_floor (
    only_one boolean primary key default true check (only_one),
    lineage  bigint not null,
    seen     pg_snapshot not null
);

-- Settings and charges, which only core reads. Kinds: 0 installation, 1 queue, 2 group, 3 task, 4 key, 5 charge, 6 a
-- group that takes no jobs, and as MemoKind has them. Names sort by their bytes, as everywhere else.
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

-- Who waits for whom, and what follows if the other one fails; kept as long as the one who waits. ended: how the other one
-- ended, if it did so badly and is kept nowhere else.
create table turnwise.dependency (
    job        uuid not null,
    awaits     uuid not null,
    on_failure text not null,
    ended      smallint check (ended in (5, 6)),
    primary key (job, awaits)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

create index dependency_awaits on turnwise.dependency (awaits, job);

-- Jobs that ended badly and are kept nowhere else, for as long as a job may come that waits for them: one submitted in a
-- transaction that was open then could not be seen. xact: of the end. until: the number before which all such
-- transactions have theirs; null until that is known.
create table turnwise.bad_end (
    id    uuid primary key,
    state smallint not null check (state in (5, 6)),
    xact  xid8 not null default pg_current_xact_id(),
    until xid8
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Who may ask a server for what. hash: the SHA-256 of the secret, which is stored nowhere. prefix: how the secret begins. granted: the
-- scopes and limits, as turnwise_core::access::Grant writes them. rate: submits a second. last_used_at: to the minute.
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

-- People who are logged in to a page. hash: the SHA-256 of the secret that the browser has. token: what the person presented.
create table turnwise.login (
    hash  bytea primary key,
    token uuid not null,
    until timestamptz not null
);

-- Tickets of pages that show a tenant's view. hash: the SHA-256 of the ticket's secret. token: what it was made with. granted: what its bearer
-- may do, as a token's. origins: whose pages may show it, with spaces between. bearer: the SHA-256 of the secret that it was redeemed for;
-- null: it was not yet. until: of the ticket, and once that is redeemed of its bearer.
create table turnwise.ticket (
    hash    bytea primary key,
    token   uuid not null,
    granted text not null,
    origins text not null,
    bearer  bytea unique,
    until   timestamptz not null
);

-- How much there is, in one row. asked_until: so long the dispatcher writes; askers write it at most every ten seconds. value: what it
-- wrote last, as JSON. Most of a page stays free, for the versions of the row.
create table turnwise.totals (
    one         boolean primary key default true check (one),
    asked_until timestamptz not null default 'epoch',
    written_at  timestamptz,
    value       text
) with (fillfactor = 10);

insert into turnwise.totals default values;
-- Fields of the arguments of a task's jobs that are not shown, each as a JSON pointer. A node notes those of its tasks when it starts.
create table turnwise.secret_field (
    task    text collate "C" not null,
    pointer text collate "C" not null,
    primary key (task, pointer)
);

-- Submits that are done once: the key, by caller (all zeros: one without a token), the SHA-256 of the request, and what it was answered.
-- Kept for a day.
create table turnwise.once (
    caller  uuid not null,
    key     text collate "C" not null,
    body    bytea not null,
    answers bytea not null,
    at      timestamptz not null default turnwise.now(),
    primary key (caller, key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index once_at on turnwise.once (at);

-- The audit log: which actor changed what, in the transaction of the change. id: chosen by the caller, so that a repeated call writes one
-- line. label: what a token is called that is the actor. before, after: in as far as it was changed, as JSON; null: it was not there.
-- Lines are added, never changed, and deleted after 400 days.
create table turnwise.audit (
    id     uuid primary key,
    at     timestamptz not null default turnwise.now(),
    actor  text collate "C" not null,
    label  text,
    verb   text not null,
    target text collate "C" not null,
    before text,
    after  text
);

create index audit_at on turnwise.audit (at, id);
create index audit_actor on turnwise.audit (actor, at, id);
create index audit_target on turnwise.audit (target, at, id);
create index audit_target_actor on turnwise.audit (target, actor, at, id);

-- So they stay, also for a role that may do everything here: until they are 400 days old, counted in hours, as days may have 23 or 25. A table
-- without lines may be truncated, as a restore by hand does.
create function turnwise.keep_audit() returns trigger
    language plpgsql
    as $$
    begin
        if tg_op operator(pg_catalog.=) 'DELETE' then
            if old.at operator(pg_catalog.<) (turnwise.now() operator(pg_catalog.-) '9600 hours'::pg_catalog.interval) then
                return old;
            end if;
            raise exception 'the audit log is append-only: its lines are kept for 400 days' using errcode = 'restrict_violation';
        end if;
        if tg_op operator(pg_catalog.=) 'TRUNCATE' and not exists (select from turnwise.audit) then
            return null;
        end if;
        raise exception 'the audit log is append-only: its lines are never changed' using errcode = 'restrict_violation';
    end
    $$;

create trigger audit_kept before update or delete on turnwise.audit
    for each row execute function turnwise.keep_audit();

create trigger audit_whole before truncate on turnwise.audit
    for each statement execute function turnwise.keep_audit();

-- What happened, as the dispatcher has counted it. span: 0 a minute, 1 an hour, 2 a day, which began at. kind: 0 a task, 1 all tasks
-- without a row of their own, 2 a group, 3 all groups without one; name: of the task or group. term: of the dispatcher that counted, 0
-- after rows were merged; those of one minute are added. sums: written and read by core alone.
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

-- The most frequent errors: how often one was seen in the runs of a task, and when first and last.
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

-- Running totals by queue and task since the beginning. The columns are those of turnwise.statistics.
create table turnwise.statistics_total (
    queue text collate "C" not null,
    kind  smallint not null,
    name  text collate "C" not null,
    sums  bytea not null,
    primary key (queue, kind, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Which dispatcher writes statistics: its epoch, and the number of its term, of which one epoch may have several.
create table turnwise.statistics_writer (
    one   boolean primary key default true check (one),
    epoch bigint not null,
    term  bigint not null
);

insert into turnwise.statistics_writer (epoch, term) values (0, 0);

-- One row at most: the move of everything that this database takes part in, or took part in last. side: 0 it is the source, 1 the
-- target. other: the other one, for people. position: how far the target has got. refusal: what is said to others while the database is
-- closed. finished: everything is in the target. writing: never true but within a transaction of the mover.
create table turnwise.move (
    only_one boolean primary key default true check (only_one),
    id       uuid not null,
    side     smallint not null,
    other    text not null,
    position text not null,
    refusal  text not null,
    finished boolean not null,
    writing  boolean not null default false
);

-- Refuses a change of a database that is closed by a move: what its triggers call, which are there only while it is closed. With the
-- rights of its owner: who submits need not be able to read the move.
create function turnwise.refuse_change() returns trigger
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        sentence text;
    begin
        select refusal into sentence from turnwise.move where not writing;
        if found then
            raise exception using message = sentence, errcode = 'TW001';
        end if;
        return null;
    end
    $$;

-- A version 7 id: milliseconds, then the fraction of the millisecond (RFC 9562, 6.2 method 3), then chance.
create function turnwise.new_id() returns uuid
    language sql volatile
    set search_path = pg_catalog, pg_temp
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

-- A mark of this run of the database. PostgreSQL empties an unlogged table when it recovers from a crash, in which it may have
-- forgotten transaction numbers that it gave out, and gives them out again; and on a server that was promoted or restored to
-- a point in time. A dump, a template copy and pg_upgrade carry the row along: place says for which database it was made.
create unlogged table turnwise.run (
    only_one boolean primary key default true check (only_one),
    lineage  bigint not null,
    place    text not null
);

-- The cluster, its timeline and the database. What the server does not tell is left out.
create function turnwise.place() returns text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        cluster  text := '';
        timeline text := '';
    begin
        begin
            select system_identifier::text into cluster from pg_control_system();
        exception when others then null;
        end;
        begin
            timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
        exception when others then null;
        end;
        return format('%s/%s/%s', cluster, timeline, (select oid from pg_database where datname = current_database()));
    end
    $$;

-- The same, once for each session: but on a standby that is promoted, it does not change while one lasts.
create function turnwise.known_place() returns text
    language plpgsql stable
    as $$
    declare
        known text := pg_catalog.current_setting('turnwise.place', true);
    begin
        if known operator(pg_catalog.<>) '' then
            return known;
        end if;
        known := turnwise.place();
        if not pg_catalog.pg_is_in_recovery() then
            perform pg_catalog.set_config('turnwise.place', known, false);
        end if;
        return known;
    end
    $$;

-- Which history of commits the database goes on. A failover, a restore, a copy and a crash begin a new one, and may have taken
-- back what was committed last; a dispatcher from before must read everything again. Null until a node has beaten.
create function turnwise.lineage() returns bigint
    language plpgsql stable
    as $$
    begin
        return (select run.lineage from turnwise.run where run.place operator(pg_catalog.=) turnwise.known_place());
    end
    $$;

-- The same, and if there is none yet, begins it.
create function turnwise.begin_lineage() returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        known bigint := turnwise.lineage();
    begin
        if known is null then
            insert into turnwise.run (lineage, place)
            values (('x' || left(translate(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint, turnwise.place())
            on conflict (only_one) do update
               set lineage = excluded.lineage, place = excluded.place
             where run.place <> excluded.place;
            -- Read, for another may have been quicker.
            known := turnwise.lineage();
        end if;
        return known;
    end
    $$;

-- Ends a submit with the sentence of its group's memo; a function, so that one statement can store and refuse.
-- Who dispatches, and whether the session is there by which its process can be seen. Null: there is none to be seen.
create function turnwise.leader()
    returns table (holder uuid, epoch bigint, until timestamptz, lease bigint, host text, there boolean)
    language sql stable
    set search_path = pg_catalog, pg_temp
    as $$
    select dispatcher.holder, dispatcher.epoch, dispatcher.until, node.lease, node.host,
           case when dispatcher.session is not null then exists (
               select from pg_locks
                where locktype = 'advisory' and objsubid = 1 and granted
                  and database = (select oid from pg_database where datname = current_database())
                  and (classid::bigint << 32 | objid::bigint) = dispatcher.session)
           end
      from turnwise.dispatcher
      join turnwise.node on node.incarnation = dispatcher.holder
     where dispatcher.until is not null
    $$;

create function turnwise.refuse(sentence text) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$ begin raise exception using message = sentence, errcode = 'TW001'; end $$;

-- Ends a submit if one of the jobs $1 that this transaction has stored has an id of more than a minute ahead of the time: ids are compared
-- to tell new jobs from those that have ended, and until then every submit would have to look closer. With the rights of its
-- owner: who submits need not see which transaction stored a job.
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

-- Takes back those of the jobs $1, which this transaction has just stored, that have ended before; tells which. To be called
-- after the insert: its statements have younger snapshots than the insert had, and so see a job that was settled while the
-- insert waited for its row. (To look first and insert afterwards leaves a moment in which such a job is in neither table.)
-- Ids are in the order of time: one beyond all that have ended is in no slice of history, and hardly another comes. The
-- rest is looked up in each slice; "offset 0" keeps that a look by key for each row, whatever the planner believes.
-- In a transaction of repeatable read or above there are no younger snapshots: see docs/guides/transactions.md.
-- With the rights of its owner: who submits need not be able to delete jobs.
-- Locks: the rows it takes back. Index: the primary keys of history and job.
create function turnwise.take_back(ids uuid[]) returns uuid[]
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        last  uuid;
        ended uuid[];
    begin
        select history.id into last from turnwise.history order by history.id desc limit 1;
        select array_agg(t.id) into ended
          from unnest(ids) as t (id)
         where t.id <= last
           and exists (select from turnwise.history where history.id = t.id offset 0);
        if ended is not null then
            delete from turnwise.job where job.id = any (ended);
        end if;
        return ended;
    end
    $$;

-- Who holds which unique key, and for how long: until the job has ended, until a moment, or the longer of both. Finished jobs
-- leave job, so that an index there could not tell. Names sort by their bytes, so that all take several keys in one order.
create table turnwise.unique_key (
    scope       text collate "C" not null check (octet_length(scope) between 1 and 220),
    key         text collate "C" not null check (octet_length(key) between 1 and 200),
    job         uuid not null,
    until_ended boolean not null,
    expires     timestamptz,
    primary key (scope, key)
) with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- For the key of a job that is shown.
create index unique_key_job on turnwise.unique_key (job);

-- Takes unique keys for jobs that are about to be stored in the same transaction. Tells of each, by its place: 0 store it,
-- 1 it was there before, 2 holder has its key. A job that is not to have another stand for it (on_duplicate 1) ends the call
-- with TW002; the detail is the holder's id. Periods are in microseconds,
-- from now: not from when the transaction began.
-- Each look is a statement of its own and so sees what was committed before it: a key that another transaction was just
-- taking is waited for by the insert or the update, and read again. Locks: keys it takes, in their order.
create function turnwise.claim(
    ids          uuid[],
    scopes       text[],
    keys         text[],
    until_ended  boolean[],
    periods      bigint[],
    on_duplicate smallint[]
) returns table (place int, holder uuid, outcome smallint)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    #variable_conflict use_column
    declare
        wish           record;
        held           record;
        coming         uuid[] := '{}';
        refused_place  int;
        refused_text   text;
        refused_holder uuid;
    begin
        for wish in
            select t.id, t.scope, t.key, t.until_ended, turnwise.clock() + t.period * interval '1 microsecond' as expires,
                   t.on_duplicate, t.place::int as place,
                   t.place > min(t.place) over (partition by t.id) as repeated
              from unnest(claim.ids, claim.scopes, claim.keys, claim.until_ended, claim.periods, claim.on_duplicate)
                   with ordinality as t (id, scope, key, until_ended, period, on_duplicate, place)
             order by t.scope collate "C", t.key collate "C", t.place
        loop
            claim.place := wish.place;
            claim.holder := wish.id;
            claim.outcome := 1;
            if wish.repeated
               or exists (select from turnwise.job where job.id = wish.id)
               or exists (select from turnwise.history where history.id = wish.id) then
                return next;
                continue;
            end if;
            loop
                insert into turnwise.unique_key (scope, key, job, until_ended, expires)
                values (wish.scope, wish.key, wish.id, wish.until_ended, wish.expires)
                on conflict (scope, key) do nothing;
                if found then
                    claim.outcome := 0;
                    exit;
                end if;
                -- One snapshot for the key and its job: they were stored together.
                select k.job, k.until_ended, k.expires, k.expires > turnwise.clock() as lasts,
                       exists (select from turnwise.job where job.id = k.job) as unfinished
                  into held
                  from turnwise.unique_key as k
                 where k.scope = wish.scope and k.key = wish.key;
                -- Gone meanwhile, with what held it.
                continue when not found;
                exit when held.job = wish.id;
                if held.lasts or (held.until_ended and (held.unfinished or held.job = any (coming))) then
                    claim.holder := held.job;
                    claim.outcome := 2;
                    if wish.on_duplicate = 1 and wish.place <= coalesce(refused_place, wish.place) then
                        refused_place := wish.place;
                        refused_holder := held.job;
                        refused_text :=
                            format('unique key "%s" in %s is held by job %s', wish.key, wish.scope, held.job);
                    end if;
                    exit;
                end if;
                update turnwise.unique_key as k
                   set job = wish.id, until_ended = wish.until_ended, expires = wish.expires
                 where k.scope = wish.scope and k.key = wish.key
                   and k.job = held.job and k.expires is not distinct from held.expires;
                if found then
                    claim.outcome := 0;
                    exit;
                end if;
            end loop;
            if claim.outcome = 0 then
                coming := coming || wish.id;
            end if;
            return next;
        end loop;
        if refused_place is not null then
            raise exception using errcode = 'TW002', message = refused_text, detail = refused_holder::text;
        end if;
    end
    $$;

-- Gives other arguments to jobs of the same task that wait and were never begun; of several wishes for one job, its task's
-- last. Tells of each unfinished job its task and whether it got them. Locks: the rows that get them, in their order.
create function turnwise.replace_args(ids uuid[], tasks text[], args text[])
    returns table (id uuid, task text, replaced boolean)
    language sql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    with wish as materialized (
        select distinct on (t.id, t.task) t.id, t.task, t.args
          from unnest(replace_args.ids, replace_args.tasks, replace_args.args)
               with ordinality as t (id, task, args, place)
         order by t.id, t.task, t.place desc
    ), locked as materialized (
        select job.id, wish.args
          from wish
          join turnwise.job on job.id = wish.id and job.task = wish.task
         where job.state = 0 and job.started_at is null and job.crashes = 0
         order by job.id
           for update of job
    ), changed as (
        update turnwise.job set args = locked.args::json from locked where job.id = locked.id returning job.id
    )
    select job.id, job.task, job.id in (select changed.id from changed)
      from turnwise.job
     where job.id = any (replace_args.ids)
    $$;

-- Rings for the dispatcher, if it sleeps as the call is made and not when the statement began; to be called when something is
-- written: a dispatcher that lies down after the call sees that this transaction is under way, and looks again.
-- A transaction that rings cannot be prepared: set local turnwise.ring = off in such a one, and the dispatcher finds the job
-- at its next poll.
create function turnwise.ring() returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    begin
        if current_setting('turnwise.ring', true) = 'off' then
            return;
        end if;
        perform pg_notify('turnwise', 'news') from turnwise.dispatcher where asleep;
    end
    $$;

-- Ends a submit of a job that no version could read.
create function turnwise.check_that(good boolean, sentence text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
    begin
        if not good then
            raise exception using message = sentence, errcode = '23514';
        end if;
    end
    $$;

-- Ends a submit with a name that the library would refuse: empty, longer than 200 bytes, with control characters, or with white
-- space around it. Both by their code points, whatever the locale says. Null is no name, and passes.
create function turnwise.check_name(field text, name text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        control constant text := '[' || chr(1) || '-' || chr(31) || chr(127) || '-' || chr(159) || ']';
        white   constant text := ' ' || chr(160) || chr(5760) || chr(8192) || chr(8193) || chr(8194) || chr(8195)
                     || chr(8196) || chr(8197) || chr(8198) || chr(8199) || chr(8200) || chr(8201) || chr(8202)
                     || chr(8232) || chr(8233) || chr(8239) || chr(8287) || chr(12288);
    begin
        perform turnwise.check_that(octet_length(name) between 1 and 200, field || ': must be 1 to 200 bytes');
        perform turnwise.check_that(name !~ control, field || ': must not contain control characters');
        perform turnwise.check_that(btrim(name, white) = name, field || ': must not begin or end with white space');
    end
    $$;

-- Tells the client by a notice which of these tasks no living node knows, as the commands that submit do: jobs of it wait until a node
-- does. Nodes may start later, so it is no error. Where no node lives nothing is said of any; a role that may not read nodes hears
-- nothing.
create function turnwise.notice_unknown(variadic tasks text[]) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        unknown text;
    begin
        if not has_table_privilege('turnwise.node', 'select')
           or not exists (select from turnwise.node where not lost and lease_until >= turnwise.now()) then
            return;
        end if;
        for unknown in
            select named.task
              from unnest(notice_unknown.tasks) as named (task)
             where named.task is not null
               and not exists (select from turnwise.node
                                where not lost and lease_until >= turnwise.now() and named.task = any(node.tasks))
        loop
            raise notice 'no living node knows the task "%"; jobs of it wait until one does', unknown;
        end loop;
    end
    $$;

-- Submits one job in the caller's transaction: for every language that can call a function. Error TW001: the group is
-- full, or it is to wait for a job that is not there, and the message says so.
-- With a unique_key, the id may be that of another job which holds the key: within 'task', 'queue', 'group' or a scope of any
-- other name, until that job has ended or for unique_for from its submit. on_duplicate: 'keep' that job, 'reject' the submit
-- with error TW002 (its detail is the other's id), or 'replace-args' of that job if it is of the same task
-- and has not begun.
-- With after, it begins when these jobs, at most 10000, have ended; on_failure says what follows if one of them fails:
-- 'fail', 'run' or 'cancel'.
-- A run takes at most timeout. When its retries run out, it goes on as the task on_exhausted, with the same arguments;
-- after a success as the task next, with the result as its arguments.
-- for_group is "group" under a name that needs no quotes. All parameters: docs/guides/sql.md.
create function turnwise.enqueue(
    task         text,
    args         json default 'null',
    queue        text default 'default',
    "group"      text default 'default',
    priority     int default 5,
    due          timestamptz default null,
    retry        text default null,
    key          text default null,
    expires      timestamptz default null,
    unique_key   text default null,
    unique_scope text default 'task',
    unique_for   interval default null,
    on_duplicate text default 'keep',
    after        uuid[] default null,
    on_failure   text default 'fail',
    timeout      interval default null,
    on_exhausted text default null,
    for_group    text default null,
    next         text default null
) returns uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    #variable_conflict use_column
    declare
        new_id   uuid := turnwise.new_id();
        claimed  record;
        limit_us bigint := extract(epoch from enqueue.timeout) * 1000000;
        terms    text;
    begin
        if enqueue.for_group is not null then
            if enqueue."group" <> 'default' then
                raise exception using errcode = '22023', message = 'for_group: cannot be given together with "group"';
            end if;
            enqueue."group" := enqueue.for_group;
        end if;
        perform turnwise.check_name('task', enqueue.task);
        perform turnwise.check_name('queue', enqueue.queue);
        perform turnwise.check_name('group', enqueue."group");
        perform turnwise.check_name('key', enqueue.key);
        perform turnwise.check_name('unique_key', enqueue.unique_key);
        perform turnwise.check_name('unique_scope', enqueue.unique_scope);
        perform turnwise.check_name('on_exhausted', enqueue.on_exhausted);
        perform turnwise.check_name('next', enqueue.next);
        perform turnwise.check_that(enqueue.priority between 1 and 10, 'priority: must be 1 to 10');
        perform turnwise.check_that(
            enqueue.retry ~ '^(manual|none|exponential:[^,]+,.+|durations:.+)$',
            format('retry: must be manual, none, exponential:… or durations:…, not %L', enqueue.retry));
        if limit_us < 1 or limit_us > 315360000000000 then
            raise exception using errcode = '22023',
                message = format('timeout: must be longer than nothing and at most ten years, not %L', enqueue.timeout);
        end if;
        if enqueue.timeout is not null or enqueue.on_exhausted is not null or enqueue.next is not null then
            -- As turnwise_core::Terms reads it; the step has the retry policy of its task. Earlier versions do not know `next`.
            terms := json_build_object(
                'timeout', limit_us || 'us',
                'on_exhausted', case when enqueue.on_exhausted is not null then json_build_object(
                    'task', enqueue.on_exhausted, 'args', coalesce(enqueue.args, 'null')) end);
            if enqueue.next is not null then
                terms := left(terms, -1) || format(', "next": %s}', to_json(enqueue.next));
            end if;
        end if;
        if enqueue.on_failure not in ('fail', 'run', 'cancel') then
            raise exception using errcode = '22023',
                message = format('on_failure: must be fail, run or cancel, not %L', enqueue.on_failure);
        end if;
        if cardinality(enqueue.after) > 0 then
            if array_position(enqueue.after, null) is not null then
                raise exception using errcode = '22023', message = 'after: must name jobs by their ids, not null';
            end if;
            enqueue.after := array(select distinct awaited.id from unnest(enqueue.after) as awaited (id));
            if cardinality(enqueue.after) > 10000 then
                raise exception using errcode = '22023',
                    message = format('after: a job may wait for at most 10000 jobs, not %s', cardinality(enqueue.after));
            end if;
        end if;
        if enqueue.unique_key is not null then
            if enqueue.on_duplicate not in ('keep', 'reject', 'replace-args') then
                raise exception using errcode = '22023',
                    message = format('on_duplicate: must be keep, reject or replace-args, not %L', enqueue.on_duplicate);
            end if;
            if enqueue.unique_for <= interval '0' then
                raise exception using errcode = '22023',
                    message = format('unique_for: must be longer than nothing, not %L', enqueue.unique_for);
            end if;
            select * into claimed
              from turnwise.claim(
                   array[new_id],
                   array[case enqueue.unique_scope
                         when 'task' then 'task:' || enqueue.task
                         when 'queue' then 'queue:' || enqueue.queue
                         when 'group' then 'group:' || enqueue."group"
                         else 'scope:' || enqueue.unique_scope end],
                   array[enqueue.unique_key],
                   array[enqueue.unique_for is null],
                   array[(extract(epoch from enqueue.unique_for) * 1000000)::bigint],
                   array[case enqueue.on_duplicate when 'reject' then 1 else 0 end::smallint]);
            if claimed.outcome <> 0 then
                if enqueue.on_duplicate = 'replace-args' then
                    perform turnwise.replace_args(array[claimed.holder], array[enqueue.task],
                                                  array[coalesce(enqueue.args, 'null')::text]);
                end if;
                return claimed.holder;
            end if;
        end if;
        perform turnwise.refuse('after: there is no job ' || first.id)
           from (
                select awaited.id
                  from unnest(enqueue.after) as awaited (id)
                 where not exists (select from turnwise.job where job.id = awaited.id)
                   and not exists (select from turnwise.history where history.id = awaited.id)
                 order by awaited.id
                 limit 1
           ) as first;
        with stored as (
            insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry, key, terms, expires_at, on_failure)
            values (new_id, enqueue.task, coalesce(enqueue.args, 'null'), enqueue.queue, enqueue."group",
                    enqueue.priority,
                    case when enqueue.due = turnwise.now() then turnwise.now() - interval '1 microsecond'
                         else coalesce(enqueue.due, turnwise.now()) end,
                    coalesce(enqueue.retry, 'task'), enqueue.key, terms, enqueue.expires,
                    case when cardinality(enqueue.after) > 0 then coalesce(enqueue.on_failure, 'fail') end)
            returning grp, on_failure
        ), waits as (
            insert into turnwise.dependency (job, awaits, on_failure)
            select new_id, awaited.id, stored.on_failure
              from stored
             cross join unnest(enqueue.after) as awaited (id)
        ), refused as materialized (
            select turnwise.refuse(memo.value)
              from stored
              join turnwise.memo on memo.kind = 6 and memo.name = stored.grp
        ), rung as materialized (
            select turnwise.ring() where exists (select from stored)
        )
        select count(*) into claimed
          from stored
         where (select count(*) from refused) >= 0 and (select count(*) from rung) >= 0;
        perform turnwise.notice_unknown(enqueue.task, enqueue.next, enqueue.on_exhausted);
        return new_id;
    end
    $$;
