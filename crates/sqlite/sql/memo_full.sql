-- memo_full.sql: what a submitter is told whose group takes no jobs. Index: primary key.
select value from turnwise_memo where kind = 6 and name = ?1
