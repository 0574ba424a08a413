-- memo_forget.sql: a memo that is no longer there. Index: primary key.
delete from turnwise_memo where kind = ?1 and name = ?2
