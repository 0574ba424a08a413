-- Limit keys of jobs; settings and charges; groups that take no jobs.
alter table turnwise.job add column key text check (octet_length(key) between 1 and 200);
alter table turnwise.history add column key text;
alter table turnwise.change add column memos boolean not null default false;

-- Settings and charges, which only core reads. Kinds: 0 installation, 1 queue, 2 group, 3 task, 4 key, 5 charge, 6 a
-- group that takes no jobs. Names sort by their bytes, as everywhere else.
create table turnwise.memo (
    kind    smallint not null,
    name    text collate "C" not null,
    value   text not null,
    version bigint not null,
    primary key (kind, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Ends a submit with the sentence of its group's memo; a function, so that one statement can store and refuse.
create function turnwise.refuse(sentence text) returns boolean
    language plpgsql volatile
    as $$ begin raise exception using message = sentence, errcode = 'TW001'; end $$;

-- A parameter more makes it another function; two of one name could not be told apart by a call that leaves the last
-- one out. Rights that were granted on the old one are to be granted on this one again.
drop function turnwise.enqueue(text, json, text, text, int, timestamptz, text);

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
    key      text default null
) returns uuid
    language sql volatile
    as $$
    with stored as (
        insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry, key)
        values (turnwise.new_id(), enqueue.task, coalesce(enqueue.args, 'null'), enqueue.queue, enqueue."group",
                enqueue.priority, coalesce(enqueue.due, turnwise.now()), enqueue.retry, enqueue.key)
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
