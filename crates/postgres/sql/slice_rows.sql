-- slice_rows.sql: how many jobs a part of history has; of more than a hundred thousand, what the statistics say. (The table
-- named here stands for one part; the code puts the name of another in its place.) Locks: nothing. Index: history_pkey.
select greatest(
       (select count(*) from (select from turnwise.history_success_rest limit 100000) as first),
       (select reltuples::bigint from pg_catalog.pg_class
         where oid = 'turnwise.history_success_rest'::regclass and reltuples > 100000))
