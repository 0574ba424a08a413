-- 0024_append_only.sql: lines of the audit log stay as they are. The triggers are explained in schema.sql.
create trigger turnwise_audit_unchanged before update on turnwise_audit
begin
    select raise(abort, 'the audit log is append-only: its lines are never changed');
end;

create trigger turnwise_audit_kept before delete on turnwise_audit
when old.at > max((unixepoch() + 1) * 1000000, (select max(at) from turnwise_audit)) - 34560000000000
begin
    select raise(abort, 'the audit log is append-only: its lines are kept for 400 days');
end;
