-- 0007_unique.sql: who holds which unique key. The columns are explained in schema.sql.

create table turnwise_unique_key (
    scope       text not null,
    key         text not null,
    job         blob not null,
    until_ended integer not null,
    expires     integer,
    primary key (scope, key)
) strict, without rowid;
