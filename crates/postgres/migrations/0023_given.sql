-- 0023_given.sql: what a submit names counts, and what it does not name is left to the task and the queue. A job that names no retry
-- policy has 'task' in its row; null stays the default policy, as all have that were stored before. A due time that is named is
-- never the very moment of the submit.
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
    set search_path = pg_catalog, pg_temp
    as $$
    #variable_conflict use_column
    declare
        new_id  uuid := turnwise.new_id();
        claimed record;
    begin
        perform turnwise.check_that(octet_length(enqueue.task) between 1 and 200, 'task: must be 1 to 200 bytes');
        perform turnwise.check_that(octet_length(enqueue.queue) between 1 and 200, 'queue: must be 1 to 200 bytes');
        perform turnwise.check_that(octet_length(enqueue."group") between 1 and 200, 'group: must be 1 to 200 bytes');
        perform turnwise.check_that(octet_length(enqueue.key) between 1 and 200, 'key: must be 1 to 200 bytes');
        perform turnwise.check_that(enqueue.priority between 1 and 10, 'priority: must be 1 to 10');
        perform turnwise.check_that(
            enqueue.retry ~ '^(manual|none|exponential:[^,]+,.+|durations:.+)$',
            format('retry: must be manual, none, exponential:… or durations:…, not %L', enqueue.retry));
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
            insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry, key, expires_at, on_failure)
            values (new_id, enqueue.task, coalesce(enqueue.args, 'null'), enqueue.queue, enqueue."group",
                    enqueue.priority,
                    case when enqueue.due = turnwise.now() then turnwise.now() - interval '1 microsecond'
                         else coalesce(enqueue.due, turnwise.now()) end,
                    coalesce(enqueue.retry, 'task'), enqueue.key, enqueue.expires,
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
        return new_id;
    end
    $$;
