-- remember.sql: write and delete memos, each named once, if the caller dispatches ($1, $2; null: it need not) and if the
-- memo still has the version that was seen (null: any; 0: it is not there). The reply has a row for each memo that was as
-- it was seen, with its place in the arrays, and one without a place if there is none. What a writer other
-- than the dispatcher wrote is recorded as a change, which the dispatcher reads as news.
-- Locks: the dispatcher's row, shared (a take-over waits until this is committed); the memos' rows, for which
-- remember_alone.sql has made room. Index: primary key.
with lead as materialized (
    select 1 from turnwise.dispatcher where holder = $1::uuid and epoch = $2::bigint and lineage = turnwise.lineage() for share
), asked as materialized (
    select t.n, t.kind, t.name, t.value, coalesce(memo.version, 0) as version
      from unnest($3::smallint[], $4::text[], $5::text[], $6::bigint[])
           with ordinality as t (kind, name, value, seen, n)
      left join turnwise.memo on memo.kind = t.kind and memo.name = t.name
     where ($1::uuid is null or exists (select from lead))
       and (t.seen is null or t.seen = coalesce(memo.version, 0))
), written as (
    insert into turnwise.memo (kind, name, value, version)
    select kind, name, value, version + 1 from asked where value is not null
    on conflict (kind, name) do update set value = excluded.value, version = excluded.version
), removed as (
    delete from turnwise.memo
     using asked
     where asked.value is null and asked.version > 0 and memo.kind = asked.kind and memo.name = asked.name
), told as (
    insert into turnwise.change (jobs, ran, memos)
    select '{}', '{}', true
     where $1::uuid is null and exists (select from asked where value is not null or version > 0)
    returning seq
), rung as materialized (
    select turnwise.ring() where exists (select from told)
)
select $1::uuid is null or exists (select from lead) as leading,
       (select count(*) from rung) >= 0 and exists (select from told) as told, asked.n
  from (values (true)) as always
  left join asked on true
