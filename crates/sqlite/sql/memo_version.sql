-- memo_version.sql: what a memo's writer is checked against. Index: primary key.
select version from turnwise_memo where kind = ?1 and name = ?2
