-- schema.sql: the whole schema as the migrations leave it; a test compares the two.
-- The names carry a prefix because the file may well be the application's own, with tables of its own.
-- Times are microseconds since 1970 (UTC), ids the 16 bytes of the UUID, names and JSON text, flags 0 or 1.
-- States: 0 waiting, 1 scheduled, 2 running, 3 stuck, 4 success, 5 failed, 6 cancelled.

-- Unfinished jobs. `autoincrement`: a number that was used again would hide a job behind the dispatcher's cursor. `key`:
-- the limit a job counts against. `terms`: JSON, null where there is nothing in it. `expires_at`: set as long as it has not
-- begun. `fence` grows by one with each assignment and node loss, and by 10000000000 with each edit.
-- `fingerprint`: what kind of failure `error` is. `on_failure`: set if it waits for those in turnwise_dependency.
-- No index names state, node or fence, so that giving a job away changes one page; who has it is told by turnwise_assignment.
create table turnwise_job (
    seq              integer primary key autoincrement,
    id               blob not null unique,
    task             text not null,
    args             text not null,
    queue            text not null,
    grp              text not null,
    priority         integer not null,
    retry            text not null,
    state            integer not null,
    attempt          integer not null,
    retries          integer not null,
    crashes          integer not null,
    fence            integer not null,
    cancel_requested integer not null,
    node             blob,
    node_name        text,
    result           text,
    error            text,
    submitted_at     integer not null,
    due_at           integer,
    assigned_at      integer,
    started_at       integer,
    finished_at      integer,
    key              text,
    terms            text,
    expires_at       integer,
    fingerprint      text,
    on_failure       text
) strict;

-- Jobs that failed last time, by kind of error. Only they are in it.
create index turnwise_job_fingerprint on turnwise_job (fingerprint, id) where fingerprint is not null;
-- The jobs of a group, newest first. Neither column ever changes.
create index turnwise_job_group on turnwise_job (grp, id);

-- Finished jobs; `seq` is the one they had.
create table turnwise_history (
    id               blob primary key not null,
    seq              integer not null,
    task             text not null,
    args             text not null,
    queue            text not null,
    grp              text not null,
    priority         integer not null,
    retry            text not null,
    state            integer not null,
    attempt          integer not null,
    retries          integer not null,
    crashes          integer not null,
    fence            integer not null,
    cancel_requested integer not null,
    node_name        text,
    result           text,
    error            text,
    submitted_at     integer not null,
    due_at           integer,
    assigned_at      integer,
    started_at       integer,
    finished_at      integer,
    ended_at         integer not null,
    key              text,
    terms            text,
    expires_at       integer,
    fingerprint      text
) strict;

create index turnwise_history_ended on turnwise_history (state, ended_at);
-- Failed jobs by kind of error.
create index turnwise_history_fingerprint on turnwise_history (fingerprint, id) where state = 5;
-- The jobs of a group that ended in this state, newest first.
create index turnwise_history_group on turnwise_history (grp, state, id);

-- `all_but`: its queues are the ones it does not serve. `batch_size`: jobs it is given at once, at most.
-- `lease`: how long it is believed to live after each beat, in microseconds. `worker`: its tasks run in another program: what that says about
-- them, as JSON.
create table turnwise_node (
    incarnation    blob primary key not null,
    name           text not null,
    host           text not null,
    slots          integer not null,
    queue_capacity integer not null,
    queues         text,
    tasks          text not null,
    joined_at      integer not null,
    lease_until    integer not null,
    lost           integer not null,
    all_but        integer not null default 0,
    batch_size     integer,
    lease          integer not null default 5000000,
    worker         text
) strict;

-- Nodes that were lost, for a day: as they were when the dispatcher found them lost, how many jobs they had in their hands, and the
-- first of these (ids of 16 bytes). For people alone: nothing decides by it, so a node that is buried has no row in turnwise_node.
create table turnwise_lost_node (
    incarnation    blob primary key not null,
    name           text not null,
    host           text not null,
    slots          integer not null,
    queue_capacity integer not null,
    queues         text,
    tasks          text not null,
    joined_at      integer not null,
    lease_until    integer not null,
    all_but        integer not null,
    batch_size     integer,
    lease          integer not null,
    lost_at        integer not null,
    held           integer not null,
    jobs           blob not null
) strict;

create index turnwise_lost_node_lost_at on turnwise_lost_node (lost_at, incarnation);

-- One row: who dispatches, in which term, until when.
create table turnwise_dispatcher (
    id     integer primary key check (id = 1),
    holder blob,
    epoch  integer not null,
    until  integer
) strict;

-- What a node was given: `jobs` are ids of 16 bytes, one after the other; `limited` has a byte for each.
create table turnwise_assignment (
    seq    integer primary key autoincrement,
    node   blob not null,
    batch  blob not null,
    jobs   blob not null,
    limited blob not null default x'',
    unique (node, batch)
) strict;

-- Jobs that a person wants stopped while they are in a node's hands, at the fence of that time. Removed when the node settles them.
create table turnwise_stop_request (
    seq   integer primary key autoincrement,
    node  blob not null,
    job   blob not null,
    fence integer not null,
    unique (node, job)
) strict;

-- What the dispatcher is to read: `jobs` holds 24 bytes a job, its id and how long it ran in microseconds (-1: it
-- did not). `told`: the epoch of a dispatcher that knows already. `memos`: whether memos were written. `failed`: the ids of
-- those of the jobs whose run ended in an error (failed or stuck), `otherwise`: of those that neither did nor ended with success.
-- `errors`: 24 bytes for each with an error, its id and the fingerprint as a number.
create table turnwise_change (
    seq    integer primary key autoincrement,
    told   integer,
    jobs   blob not null,
    memos  integer not null default 0,
    failed blob not null default x'',
    otherwise blob not null default x'',
    errors blob not null default x''
) strict;

-- One row: a random number, by which a watcher's cursor is recognised as one of this database.
create table turnwise_origin (
    id     integer primary key check (id = 1),
    number integer not null
) strict;

-- Settings and charges. Kinds: 0 installation, 1 queue, 2 group, 3 task, 4 key, 5 charge, 6 a group that takes no jobs, and as MemoKind has them.
create table turnwise_memo (
    kind    integer not null,
    name    text not null,
    value   text not null,
    version integer not null,
    primary key (kind, name)
) strict, without rowid;

-- What jobs tell of their runs, finished ones included; it goes with the job. Rows lie in the order of their key, so that
-- one job's are together.

-- Runs that have ended, but for a last one that went well, which the job itself tells. Endings: 0 next, 1 error, 2 panic,
-- 3 timed out, 4 failed for good, 5 node lost. `chain`: what it said, then each cause, as a JSON array.
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

-- Lines, by run (its fence) and in the order they were written. Levels: 0 error, 1 warn, 2 info, 3 debug, 4 trace.
create table turnwise_log (
    job    blob not null,
    fence  integer not null,
    number integer not null,
    at     integer not null,
    level  integer not null,
    text   text not null,
    primary key (job, fence, number)
) strict, without rowid;

-- Results of finished steps.
create table turnwise_step (
    job    blob not null,
    name   text not null,
    result text not null,
    primary key (job, name)
) strict, without rowid;

-- How far a run has come (`total` 0: unknown; all null: it never said), and how many lines are not kept any more.
create table turnwise_progress (
    job     blob primary key not null,
    done    integer,
    total   integer,
    text    text,
    dropped integer not null
) strict, without rowid;

-- Who holds which unique key, and for how long: until the job has ended, until a moment, or the longer of both. Finished
-- jobs leave `turnwise_job`, so that an index there could not tell.
create table turnwise_unique_key (
    scope       text not null,
    key         text not null,
    job         blob not null,
    until_ended integer not null,
    expires     integer,
    primary key (scope, key)
) strict, without rowid;

-- For the key of a job that is shown.
create index turnwise_unique_key_job on turnwise_unique_key (job);

-- Who waits for whom, and what follows if the other one fails; kept as long as the one who waits. `ended`: how the other one
-- ended, if it did so badly and is kept nowhere else.
create table turnwise_dependency (
    job        blob not null,
    awaits     blob not null,
    on_failure text not null,
    ended      integer,
    primary key (job, awaits)
) strict, without rowid;

create index turnwise_dependency_awaits on turnwise_dependency (awaits, job);

-- Who may ask a server for what. `hash`: the SHA-256 of the secret, which is stored nowhere. `prefix`: how the secret begins. `granted`:
-- the scopes and limits, as turnwise_core::access::Grant writes them. `rate`: submits a second. `last_used_at`: to the minute.
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

-- People who are logged in to a page. `hash`: the SHA-256 of the secret that the browser has. `token`: what the person presented.
create table turnwise_login (
    hash  blob primary key not null,
    token blob not null,
    until integer not null
) strict, without rowid;

-- Tickets of pages that show a tenant's view. `hash`: the SHA-256 of the ticket's secret. `token`: what it was made with. `granted`: what its bearer
-- may do, as a token's. `origins`: whose pages may show it, with spaces between. `bearer`: the SHA-256 of the secret that it was redeemed for;
-- null: it was not yet. `until`: of the ticket, and once that is redeemed of its bearer.
create table turnwise_ticket (
    hash    blob primary key not null,
    token   blob not null,
    granted text not null,
    origins text not null,
    bearer  blob unique,
    until   integer not null
) strict, without rowid;

-- How much there is, in one row. `asked_until`: so long the dispatcher writes; askers write it at most every ten seconds. `value`: what it
-- wrote last, as JSON.
create table turnwise_totals (
    one         integer primary key check (one = 1),
    asked_until integer not null,
    written_at  integer,
    value       text
) strict;

insert into turnwise_totals (one, asked_until) values (1, 0);
-- Fields of the arguments of a task's jobs that are not shown, each as a JSON pointer. A node notes those of its tasks when it starts.
create table turnwise_secret_field (
    task    text not null,
    pointer text not null,
    primary key (task, pointer)
) strict, without rowid;

-- Submits that are done once: the key, by caller (16 zero bytes: one without a token), the SHA-256 of the request, and what it was
-- answered. Kept for a day.
create table turnwise_once (
    caller  blob not null,
    key     text not null,
    body    blob not null,
    answers blob not null,
    at      integer not null,
    primary key (caller, key)
) strict, without rowid;

create index turnwise_once_at on turnwise_once (at);

-- The audit log: which actor changed what, in the transaction of the change. `id`: chosen by the caller, so that a repeated call writes one
-- line. `label`: what a token is called that is the actor. `before`, `after`: in as far as it was changed, as JSON; null: it was not there.
-- Lines are added, never changed, and deleted after 400 days.
create table turnwise_audit (
    id     blob primary key not null,
    at     integer not null,
    actor  text not null,
    label  text,
    verb   text not null,
    target text not null,
    before text,
    after  text
) strict, without rowid;

create index turnwise_audit_at on turnwise_audit (at, id);
create index turnwise_audit_actor on turnwise_audit (actor, at, id);
create index turnwise_audit_target on turnwise_audit (target, at, id);
create index turnwise_audit_target_actor on turnwise_audit (target, actor, at, id);

-- So they stay, also for a person with a tool: until they are 400 days old (in microseconds), by this machine's clock, to the next second, or
-- by the newest line, for a store may have a clock of its own.
create trigger turnwise_audit_unchanged before update on turnwise_audit
begin
    select raise(abort, 'the audit log is append-only: its lines are never changed');
end;

create trigger turnwise_audit_kept before delete on turnwise_audit
when old.at > max((unixepoch() + 1) * 1000000, (select max(at) from turnwise_audit)) - 34560000000000
begin
    select raise(abort, 'the audit log is append-only: its lines are kept for 400 days');
end;

-- Nor does `replace into` take the place of a line, which SQLite does without asking the other two: a line that is there stays, and another one
-- with its id is refused.
create trigger turnwise_audit_not_replaced before insert on turnwise_audit
when exists (select 1 from turnwise_audit where id = new.id)
begin
    select raise(abort, 'the audit log is append-only: its lines are never changed')
      from turnwise_audit
     where id = new.id
       and (actor, label, verb, target, before, after)
           is not (new.actor, new.label, new.verb, new.target, new.before, new.after);
    select raise(ignore);
end;

-- What happened, as the dispatcher has counted it. span: 0 a minute, 1 an hour, 2 a day, which began at. kind: 0 a task, 1 all tasks
-- without a row of their own, 2 a group, 3 all groups without one; name: of the task or group. term: of the dispatcher that counted, 0
-- after rows were merged; those of one minute are added. sums: written and read by core alone.
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

-- The most frequent errors: how often one was seen in the runs of a task, and when first and last.
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

-- Running totals by queue and task since the beginning. The columns are those of turnwise_statistics.
create table turnwise_statistics_total (
    queue text not null,
    kind  integer not null,
    name  text not null,
    sums  blob not null,
    primary key (queue, kind, name)
) strict, without rowid;

-- Which dispatcher writes statistics: its epoch, and the number of its term, of which one epoch may have several.
create table turnwise_statistics_writer (
    one   integer primary key check (one = 1),
    epoch integer not null,
    term  integer not null
) strict;

insert into turnwise_statistics_writer (one, epoch, term) values (1, 0, 0);

-- One row at most: the move of everything that this database takes part in, or took part in last. `side`: 0 it is the source, 1 the
-- target. `other`: the other one, for people. `position`: how far the target has got. `finished`: everything is in the target.
-- `writing`: never 1 but within a transaction of the mover, for which the triggers that refuse all others make way. They are there only
-- while the database is closed.
create table turnwise_move (
    one      integer primary key check (one = 1),
    id       blob not null,
    side     integer not null,
    other    text not null,
    position text not null,
    finished integer not null,
    writing  integer not null default 0
) strict;

create table turnwise_migration (
    version    integer primary key,
    name       text not null,
    applied_at integer not null,
    breaks     integer not null default 0
) strict;
