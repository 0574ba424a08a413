-- durability.sql: what the server has done when it answers a commit. Locks: nothing. Index: none, it is no table.
select name, setting
  from pg_catalog.pg_settings
 where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')
