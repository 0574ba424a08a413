-- audit_memos.sql: as audit_write.sql, each line only if its memo ($8, $9) still has the version that was seen ($10). Sent after
-- remember_alone.sql and before remember.sql: between them no other process writes memos, so the one writes exactly what the other does.
-- Locks: the new rows. Index: primary keys.
insert into turnwise.audit (id, at, actor, label, verb, target, before, after)
select t.id, moment.at, t.actor, t.label, t.verb, t.target, t.before, t.after
  from (select turnwise.now() as at) as moment,
       unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[],
              $10::bigint[])
       as t (id, actor, label, verb, target, before, after, memo_kind, memo_name, seen)
  left join turnwise.memo on memo.kind = t.memo_kind and memo.name = t.memo_name
 where t.seen is null or t.seen = coalesce(memo.version, 0)
 order by t.id
    on conflict (id) do nothing
