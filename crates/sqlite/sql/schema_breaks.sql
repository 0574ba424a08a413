-- schema_breaks.sql: the newest step that older binaries do not work with.
select coalesce(max(version), 0) from turnwise_migration where breaks
