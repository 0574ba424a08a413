-- totals_write.sql: write the totals ?2 at the time ?1. Index: primary key.
update turnwise_totals set written_at = ?1, value = ?2 where one = 1
