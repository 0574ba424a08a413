-- schema_exists.sql: whether any migration was ever applied. Asks the catalog's tables, not to_regclass(): that may
-- answer from a cache filled before another process migrated. Locks: nothing. Index: the catalog's own.
select exists (
       select from pg_catalog.pg_class
         join pg_catalog.pg_namespace on pg_namespace.oid = pg_class.relnamespace
        where nspname = 'turnwise' and relname = 'migration') as there
