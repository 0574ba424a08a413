-- prune_audit.sql: deletes at most ?2 lines of the audit log from before ?1, the oldest first. Index: turnwise_audit_at.
delete from turnwise_audit
 where id in (select id from turnwise_audit where at < ?1 order by at, id limit ?2)
