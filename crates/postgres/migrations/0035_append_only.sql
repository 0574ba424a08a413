-- 0035_append_only.sql: lines of the audit log stay as they are. The triggers are explained in schema.sql.
create function turnwise.keep_audit() returns trigger
    language plpgsql
    as $$
    begin
        if tg_op operator(pg_catalog.=) 'DELETE' then
            if old.at operator(pg_catalog.<) (turnwise.now() operator(pg_catalog.-) '9600 hours'::pg_catalog.interval) then
                return old;
            end if;
            raise exception 'the audit log is append-only: its lines are kept for 400 days' using errcode = 'restrict_violation';
        end if;
        if tg_op operator(pg_catalog.=) 'TRUNCATE' and not exists (select from turnwise.audit) then
            return null;
        end if;
        raise exception 'the audit log is append-only: its lines are never changed' using errcode = 'restrict_violation';
    end
    $$;

create trigger audit_kept before update or delete on turnwise.audit
    for each row execute function turnwise.keep_audit();

create trigger audit_whole before truncate on turnwise.audit
    for each statement execute function turnwise.keep_audit();
