-- vitals_connections.sql: connections that are open, as many as ordinary roles may have, and how many of this database show nothing to this
-- role. Locks: nothing. Index: none, it is no table.
select count(*) filter (where backend_type = 'client backend'),
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
           - coalesce(current_setting('reserved_connections', true), '0')::bigint,
       count(*) filter (where datname = current_database() and query = '<insufficient privilege>')
  from pg_catalog.pg_stat_activity
