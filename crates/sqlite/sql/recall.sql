-- recall.sql: the memos of one kind. Index: primary key.
select name, value, version from turnwise_memo where kind = ?1 order by name
