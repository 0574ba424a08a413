-- recall.sql: the memos of these kinds. Locks: nothing. Index: primary key.
select kind, name, value, version from turnwise.memo where kind = any ($1::smallint[]) order by kind, name
