-- statistics_totals.sql: all running totals. Index: primary key, all of it.
select queue, kind, name, sums from turnwise_statistics_total order by queue, kind, name
