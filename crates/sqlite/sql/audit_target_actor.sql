-- audit_target_actor.sql: as audit.sql, about one target, of one actor. Index: turnwise_audit_target_actor, backwards;
-- named, because the planner takes the one without the actor for as good.
select id, at, actor, label, verb, target, before, after
  from turnwise_audit indexed by turnwise_audit_target_actor
 where target = ?5 and actor = ?6 and (at, id) < (?1, ?2) and at >= ?3
 order by at desc, id desc
 limit ?4
