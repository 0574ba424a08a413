-- memo_version.sql: the version that a memo's writer must have seen. Index: primary key.
select version from turnwise_memo where kind = ?1 and name = ?2
