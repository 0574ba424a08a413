-- totals.sql: until when totals are asked for, and what was written last and when. Index: primary key.
select asked_until, written_at, value from turnwise_totals where one = 1
