-- memo_full.sql: the refusal for a submitter whose group takes no jobs. Index: primary key.
select value from turnwise_memo where kind = 6 and name = ?1
