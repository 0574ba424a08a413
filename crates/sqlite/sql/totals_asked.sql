-- totals_asked.sql: until when totals are asked for. Index: primary key.
select asked_until from turnwise_totals where one = 1
