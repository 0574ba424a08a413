-- `turnwise.now()` and `clock()` read a table; a plain column, so that every handle sees a move at once. The lineage is that of
-- the memory store, which epochs are compared with.
create table turnwise.test_clock (now timestamptz not null);
insert into turnwise.test_clock values ('2030-01-01 00:00:00.123457+00');
grant select on turnwise.test_clock to public;
create or replace function turnwise.now() returns timestamptz language sql stable
    as 'select now from turnwise.test_clock';
create or replace function turnwise.clock() returns timestamptz language sql volatile
    as 'select now from turnwise.test_clock';
create or replace function turnwise.lineage() returns bigint language sql stable as 'select 0::bigint';
