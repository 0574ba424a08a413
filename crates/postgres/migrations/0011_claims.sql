-- Unique keys count their periods from the call, and no job gets the arguments of another task's.

-- The time of the call, where turnwise.now() is when the transaction began: a caller's may have been open for long.
create function turnwise.clock() returns timestamptz
    language sql volatile parallel safe
    as 'select pg_catalog.clock_timestamp()';

-- Takes unique keys for jobs that are about to be stored in the same transaction. Tells of each, by its place: 0 store it,
-- 1 it was there before, 2 holder has its key. A job that is not to have another stand for it (on_duplicate 1) ends the call
-- with TW002; the detail is the holder's id. Periods are in microseconds,
-- from now: not from when the transaction began.
-- Each look is a statement of its own and so sees what was committed before it: a key that another transaction was just
-- taking is waited for by the insert or the update, and read again. Locks: keys it takes, in their order.
create or replace function turnwise.claim(
    ids          uuid[],
    scopes       text[],
    keys         text[],
    until_ended  boolean[],
    periods      bigint[],
    on_duplicate smallint[]
) returns table (place int, holder uuid, outcome smallint)
    language plpgsql volatile
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

drop function turnwise.replace_args(uuid[], text[]);

-- Gives other arguments to jobs of the same task that wait and were never begun; of several wishes for one job, its task's
-- last. Tells of each unfinished job its task and whether it got them. Locks: the rows that get them, in their order.
create function turnwise.replace_args(ids uuid[], tasks text[], args text[])
    returns table (id uuid, task text, replaced boolean)
    language sql volatile
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

-- Submits one job in the caller's transaction: for every language that can call a function. Error TW001: the group is
-- full, or it is to wait for a job that is not there, and the message says so.
-- With a unique_key, the id may be that of another job which holds the key: within 'task', 'queue', 'group' or a scope of any
-- other name, until that job has ended or for unique_for from its submit. on_duplicate: 'keep' that job, 'reject' the submit
-- with error TW002 (its detail is the other's id), or 'replace-args' of that job if it is of the same task
-- and has not begun.
-- With after, it begins when these jobs have ended; on_failure says what follows if one of them fails: 'fail', 'run', 'cancel'.
create or replace function turnwise.enqueue(
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
    on_failure   text default 'fail'
) returns uuid
    language plpgsql volatile
    as $$
    #variable_conflict use_column
    declare
        new_id  uuid := turnwise.new_id();
        claimed record;
    begin
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
            insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry, key, expires_at, on_failure)
            values (new_id, enqueue.task, coalesce(enqueue.args, 'null'), enqueue.queue, enqueue."group",
                    enqueue.priority, coalesce(enqueue.due, turnwise.now()), enqueue.retry, enqueue.key,
                    enqueue.expires,
                    case when cardinality(enqueue.after) > 0 then coalesce(enqueue.on_failure, 'fail') end)
            returning grp, on_failure
        ), waits as (
            insert into turnwise.dependency (job, awaits, on_failure)
            select distinct new_id, awaited.id, stored.on_failure
              from stored
             cross join unnest(enqueue.after) as awaited (id)
        ), refused as materialized (
            select turnwise.refuse(memo.value)
              from stored
              join turnwise.memo on memo.kind = 6 and memo.name = stored.grp
        ), rung as materialized (
            select pg_notify('turnwise', 'news') from turnwise.dispatcher where asleep
        )
        select count(*) into claimed
          from stored
         where (select count(*) from refused) >= 0 and (select count(*) from rung) >= 0;
        return new_id;
    end
    $$;
