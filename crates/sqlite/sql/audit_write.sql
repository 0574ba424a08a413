-- audit_write.sql: adds a line to the audit log, unless it is there. Index: primary key.
insert into turnwise_audit (id, at, actor, label, verb, target, before, after)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    on conflict (id) do nothing
