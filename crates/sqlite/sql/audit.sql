-- audit.sql: lines before time ?1 and id ?2, back to time ?3, newest first. Index: turnwise_audit_at, backwards.
select id, at, actor, label, verb, target, before, after
  from turnwise_audit
 where (at, id) < (?1, ?2) and at >= ?3
 order by at desc, id desc
 limit ?4
