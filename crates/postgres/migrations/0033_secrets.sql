-- 0033_secrets.sql: which fields of a task's arguments are secret. The columns are explained in schema.sql.
create table turnwise.secret_field (
    task    text collate "C" not null,
    pointer text collate "C" not null,
    primary key (task, pointer)
);
