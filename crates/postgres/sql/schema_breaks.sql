-- schema_breaks.sql: the last migration that older binaries do not work with. Locks: nothing. Index: none, there are few.
select coalesce(max(version), 0) from turnwise.migration where breaks
