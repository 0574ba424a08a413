-- prune_audit.sql: delete at most $2 lines of the audit log from before $1, the oldest first. Locks: those rows. Index: audit_at.
-- Without `for update`: that needs the right to change lines, which no role that works has. Two prunes at a time wait for each other.
delete from turnwise.audit
 where ctid = any (array(select ctid from turnwise.audit where at < $1 order by at, id limit $2))
