-- memo_forget.sql: deletes a memo. Index: primary key.
delete from turnwise_memo where kind = ?1 and name = ?2
