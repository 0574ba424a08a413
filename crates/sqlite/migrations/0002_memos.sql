-- 0002_memos.sql: limit keys of jobs; settings and charges. The columns are explained in schema.sql.

alter table turnwise_job add column key text;

alter table turnwise_history add column key text;

alter table turnwise_change add column memos integer not null default 0;

create table turnwise_memo (
    kind    integer not null,
    name    text not null,
    value   text not null,
    version integer not null,
    primary key (kind, name)
) strict, without rowid;
