-- schema_exists.sql: whether any step was ever done.
select exists (select 1 from sqlite_master where type = 'table' and name = 'turnwise_migration')
