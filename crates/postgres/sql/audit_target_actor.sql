-- audit_target_actor.sql: as audit.sql, about one target, of one actor. Locks: nothing. Index: audit_target_actor, backwards.
select id, at, actor, label, verb, target, before, after
  from turnwise.audit
 where target = $5 and actor = $6 and (at, id) < ($1, $2) and at >= $3
 order by at desc, id desc
 limit $4
