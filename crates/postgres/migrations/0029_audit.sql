-- 0029_audit.sql: the audit log. The columns are explained in schema.sql.
create table turnwise.audit (
    id     uuid primary key,
    at     timestamptz not null default turnwise.now(),
    actor  text collate "C" not null,
    label  text,
    verb   text not null,
    target text collate "C" not null,
    before text,
    after  text
);

create index audit_at on turnwise.audit (at, id);
create index audit_actor on turnwise.audit (actor, at, id);
create index audit_target on turnwise.audit (target, at, id);
create index audit_target_actor on turnwise.audit (target, actor, at, id);
