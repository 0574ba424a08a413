-- History by state, and within a state by slices of time: what need not be kept any longer is dropped whole. Slices are made
-- ahead and dropped by the dispatcher; where there is none for a moment, the rest takes what ends then.
-- An id is no key any more, since a key must name what the slices go by. Nothing else changes: a job is unfinished or in
-- history, and nobody submits an id that is in either.
drop index turnwise.history_ended_at;
alter table turnwise.history drop constraint history_pkey;
alter table turnwise.history rename to history_before;

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
    noted            boolean not null default true
) partition by list (state);

create index history_id on turnwise.history (id);
-- Whose story has to go before the slice does.
create index history_noted on turnwise.history (id) where noted;

create table turnwise.history_success partition of turnwise.history for values in (4) partition by range (ended_at);
create table turnwise.history_failed partition of turnwise.history for values in (5) partition by range (ended_at);
create table turnwise.history_cancelled partition of turnwise.history for values in (6) partition by range (ended_at);
create table turnwise.history_success_rest partition of turnwise.history_success default;
create table turnwise.history_failed_rest partition of turnwise.history_failed default;
create table turnwise.history_cancelled_rest partition of turnwise.history_cancelled default;
create index history_success_rest_ended on turnwise.history_success_rest (ended_at);
create index history_failed_rest_ended on turnwise.history_failed_rest (ended_at);
create index history_cancelled_rest_ended on turnwise.history_cancelled_rest (ended_at);

-- A slice for each day there is something of, named by the hours it begins and ends with, in UTC.
do $do$
declare
    day record;
begin
    for day in
        select distinct case state when 4 then 'history_success' when 5 then 'history_failed' else 'history_cancelled' end
                        as parent,
               date_trunc('day', ended_at at time zone 'UTC') as begins
          from turnwise.history_before
    loop
        execute format('create table turnwise.%I partition of turnwise.%I for values from (%L) to (%L)',
            day.parent || to_char(day.begins, '_YYYYMMDDHH24') || to_char(day.begins + interval '1 day', '_YYYYMMDDHH24'),
            day.parent, day.begins at time zone 'UTC', (day.begins + interval '1 day') at time zone 'UTC');
    end loop;
end
$do$;

insert into turnwise.history (
       id, seq, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at, ended_at, key, terms,
       expires_at, fingerprint, noted)
select id, seq, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
       node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at, ended_at, key, terms,
       expires_at, fingerprint,
       exists (select from turnwise.attempt where attempt.job = id)
           or exists (select from turnwise.log where log.job = id)
           or exists (select from turnwise.step where step.job = id)
           or exists (select from turnwise.progress where progress.job = id)
  from turnwise.history_before;

drop table turnwise.history_before;
