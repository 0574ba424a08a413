-- schema_version.sql: the newest step that was done.
select coalesce(max(version), 0) from turnwise_migration
