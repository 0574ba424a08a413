-- schema_version.sql: the last migration that was applied. Locks: nothing. Index: primary key.
select coalesce(max(version), 0) from turnwise.migration
