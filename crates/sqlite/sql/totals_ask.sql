-- totals_ask.sql: note that totals are asked for until ?1. Index: primary key.
update turnwise_totals set asked_until = ?1 where one = 1
