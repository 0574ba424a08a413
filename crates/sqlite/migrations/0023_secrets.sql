-- 0023_secrets.sql: which fields of a task's arguments are secret. The columns are explained in schema.sql.
create table turnwise_secret_field (
    task    text not null,
    pointer text not null,
    primary key (task, pointer)
) strict, without rowid;
