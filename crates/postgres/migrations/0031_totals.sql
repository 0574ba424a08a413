-- 0031_totals.sql: how much there is, as the dispatcher writes it while somebody asks. The columns are explained in schema.sql.
create table turnwise.totals (
    one         boolean primary key default true check (one),
    asked_until timestamptz not null default 'epoch',
    written_at  timestamptz,
    value       text
) with (fillfactor = 10);

insert into turnwise.totals default values;
