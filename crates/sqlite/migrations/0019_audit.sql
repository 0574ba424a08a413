-- 0019_audit.sql: the audit log. The columns are explained in schema.sql.
create table turnwise_audit (
    id     blob primary key not null,
    at     integer not null,
    actor  text not null,
    label  text,
    verb   text not null,
    target text not null,
    before text,
    after  text
) strict, without rowid;

create index turnwise_audit_at on turnwise_audit (at, id);
create index turnwise_audit_actor on turnwise_audit (actor, at, id);
create index turnwise_audit_target on turnwise_audit (target, at, id);
create index turnwise_audit_target_actor on turnwise_audit (target, actor, at, id);
