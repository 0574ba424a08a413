-- audit_actor.sql: as audit.sql, of one actor. Index: turnwise_audit_actor, backwards.
select id, at, actor, label, verb, target, before, after
  from turnwise_audit
 where actor = ?5 and (at, id) < (?1, ?2) and at >= ?3
 order by at desc, id desc
 limit ?4
