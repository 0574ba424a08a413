-- 0027_not_replaced.sql: a line of the audit log is not put in the place of another one. The trigger is explained in schema.sql.
create trigger turnwise_audit_not_replaced before insert on turnwise_audit
when exists (select 1 from turnwise_audit where id = new.id)
begin
    select raise(abort, 'the audit log is append-only: its lines are never changed')
      from turnwise_audit
     where id = new.id
       and (actor, label, verb, target, before, after)
           is not (new.actor, new.label, new.verb, new.target, new.before, new.after);
    select raise(ignore);
end;
