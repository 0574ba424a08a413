-- 0021_totals.sql: how much there is, as the dispatcher writes it while somebody asks. The columns are explained in schema.sql.
create table turnwise_totals (
    one         integer primary key check (one = 1),
    asked_until integer not null,
    written_at  integer,
    value       text
) strict;

insert into turnwise_totals (one, asked_until) values (1, 0);
