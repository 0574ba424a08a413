-- 0020_watch.sql: by what a watcher's cursor is recognised as one of this database. The column is explained in schema.sql.
create table turnwise_origin (
    id     integer primary key check (id = 1),
    number integer not null
) strict;

insert into turnwise_origin (id, number) values (1, random() & 281474976710655);
