-- vitals_settings.sql: the server's settings that matter, and how many connections it has. Locks: nothing. Index: none, it is no table.
select name, setting
  from pg_catalog.pg_settings
 where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'autovacuum')
union all
select 'in_recovery', case when pg_catalog.pg_is_in_recovery() then 'on' else 'off' end
