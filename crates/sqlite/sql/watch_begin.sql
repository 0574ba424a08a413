-- watch_begin.sql: which database this is, the last numbers given, and the oldest change that is kept. Index: primary key.
select number,
       coalesce((select seq from sqlite_sequence where name = 'turnwise_job'), 0),
       coalesce((select seq from sqlite_sequence where name = 'turnwise_change'), 0),
       (select min(seq) from turnwise_change)
  from turnwise_origin
