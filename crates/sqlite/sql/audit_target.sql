-- audit_target.sql: as audit.sql, about one target. Index: turnwise_audit_target, backwards.
select id, at, actor, label, verb, target, before, after
  from turnwise_audit
 where target = ?5 and (at, id) < (?1, ?2) and at >= ?3
 order by at desc, id desc
 limit ?4
