-- memo_any_full.sql: whether any group takes no jobs. Index: primary key.
select exists (select 1 from turnwise_memo where kind = 6)
