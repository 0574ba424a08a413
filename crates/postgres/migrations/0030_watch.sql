-- 0030_watch.sql: how far changes were deleted. The columns are explained in schema.sql.
create table turnwise.change_floor (
    only_one boolean primary key default true check (only_one),
    lineage  bigint not null,
    seen     pg_snapshot not null
);
