-- enqueue.sql: store new jobs, in submission order; the reply names those that were not there before.
-- Binds: $1 uuid[] ids, $2 text[] tasks, $3 text[] arguments (JSON), $4 text[] queues, $5 text[] groups,
-- $6 smallint[] priorities, $7 text[] due times (RFC 3339; null = now), $8 text[] retry policies (null = that of the task),
-- $9 text[] limit keys (null = none), $10 text[] terms (null = none), $11 text[] times to begin by (RFC 3339; null =
-- none), $12 bigint the time of the newest id, in milliseconds since 1970. Where one of $10 and $11 is shorter than the others, the rest is
-- null.
-- A job that names no time is due when it is submitted, and one that names that very moment a microsecond earlier: this tells them
-- apart (calendar::stored_due in core).
-- A new job of a group that is full (memo kind 6) fails the statement with TW001; no group is looked up while none is full.
-- So does a new job whose id is more than a minute ahead of the database's time; turnwise.refuse_ahead is asked only if the newest is.
-- A job that has ended already is deleted again after the insert, by turnwise.take_back, which says why this is done afterwards.
-- Runs in callers' transactions too: every name is qualified, whatever their search_path finds.
-- Locks: the new rows only. Index: the primary keys of job and memo, history_pkey.
with inserted as (
    insert into turnwise.job (id, task, args, queue, grp, priority, due_at, retry, key, terms, expires_at)
    select t.id, t.task, t.args::pg_catalog.json, t.queue, t.grp, t.priority,
           case when t.due::pg_catalog.timestamptz operator(pg_catalog.=) turnwise.now()
                then turnwise.now() operator(pg_catalog.-) pg_catalog.interval '1 microsecond'
                else coalesce(t.due::pg_catalog.timestamptz, turnwise.now()) end,
           coalesce(t.retry, 'task'), t.key, t.terms,
           t.expires::pg_catalog.timestamptz
      from rows from (
           pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.text[]),
           pg_catalog.unnest($3::pg_catalog.text[]), pg_catalog.unnest($4::pg_catalog.text[]),
           pg_catalog.unnest($5::pg_catalog.text[]), pg_catalog.unnest($6::pg_catalog.int2[]),
           pg_catalog.unnest($7::pg_catalog.text[]), pg_catalog.unnest($8::pg_catalog.text[]),
           pg_catalog.unnest($9::pg_catalog.text[]), pg_catalog.unnest($10::pg_catalog.text[]),
           pg_catalog.unnest($11::pg_catalog.text[]))
           with ordinality as t (id, task, args, queue, grp, priority, due, retry, key, terms, expires, n)
     order by t.n
    on conflict (id) do nothing
    returning id, seq, grp
), ended as materialized (
    select turnwise.take_back(pg_catalog.array_agg(id)) as ids
      from inserted
    having pg_catalog.count(*) operator(pg_catalog.>) 0
), stored as materialized (
    select id, seq, grp from inserted, ended where ended.ids is null or id operator(pg_catalog.<>) all (ended.ids)
), refused as materialized (
    select turnwise.refuse(first.value)
      from (
           select memo.value
             from stored
             join turnwise.memo
               on memo.kind operator(pg_catalog.=) 6 and memo.name operator(pg_catalog.=) stored.grp
            where exists (select from turnwise.memo where kind operator(pg_catalog.=) 6)
            order by stored.seq
            limit 1
      ) as first
), rung as materialized (
    select turnwise.ring() where exists (select from stored)
)
select stored.id
  from stored
 where (select pg_catalog.count(*) from refused) operator(pg_catalog.>=) 0
   and (select pg_catalog.count(*) from rung) operator(pg_catalog.>=) 0
   and (select case when ($12::pg_catalog.int8 operator(pg_catalog.-) 60000)
                         operator(pg_catalog.>) (extract(epoch from turnwise.now()) operator(pg_catalog.*) 1000)
                    then turnwise.refuse_ahead($1) else true end)
