-- remember.sql: writes a memo; the caller has seen, in the same transaction, that it may. Index: primary key.
insert into turnwise_memo (kind, name, value, version)
values (?1, ?2, ?3, ?4)
    on conflict (kind, name) do update set value = excluded.value, version = excluded.version
