-- 0038_tickets.sql: pages of a host that show a tenant's view. The columns are explained in schema.sql.
create table turnwise.ticket (
    hash    bytea primary key,
    token   uuid not null,
    granted text not null,
    origins text not null,
    bearer  bytea unique,
    until   timestamptz not null
);
