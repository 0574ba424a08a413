-- audit_write.sql: add lines to the audit log, but for those that are there; all of one moment. Locks: the new rows. Index: primary key.
insert into turnwise.audit (id, at, actor, label, verb, target, before, after)
select t.id, moment.at, t.actor, t.label, t.verb, t.target, t.before, t.after
  from (select turnwise.now() as at) as moment,
       unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
       as t (id, actor, label, verb, target, before, after)
 order by t.id
    on conflict (id) do nothing
