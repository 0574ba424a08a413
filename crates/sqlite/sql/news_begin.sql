-- news_begin.sql: the last numbers given; the counters, not the largest rows, because rows leave.
select coalesce((select seq from sqlite_sequence where name = 'turnwise_job'), 0),
       coalesce((select seq from sqlite_sequence where name = 'turnwise_change'), 0)
