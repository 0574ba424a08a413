-- 0025_move.sql: the move of everything from one database to another. The columns are explained in schema.sql.
create table turnwise_move (
    one      integer primary key check (one = 1),
    id       blob not null,
    side     integer not null,
    other    text not null,
    position text not null,
    finished integer not null,
    writing  integer not null default 0
) strict;
