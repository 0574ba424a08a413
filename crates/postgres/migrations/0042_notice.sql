-- 0042_notice.sql: the SQL function says by a notice which task no living node knows.
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
