-- statistics_totals.sql: all running totals. Locks: nothing. Index: primary key, all of it.
select queue, kind, name, sums from turnwise.statistics_total order by queue, kind, name
