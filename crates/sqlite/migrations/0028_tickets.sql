-- 0028_tickets.sql: pages of a host that show a tenant's view. The columns are explained in schema.sql.
create table turnwise_ticket (
    hash    blob primary key not null,
    token   blob not null,
    granted text not null,
    origins text not null,
    bearer  blob unique,
    until   integer not null
) strict, without rowid;
