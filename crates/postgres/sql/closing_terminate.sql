-- closing_terminate.sql: end the connections on which tasks of lost nodes have transactions open, as far as this role may,
-- so that their locks do not linger. They could not have been committed. Locks: nothing.
select pg_terminate_backend(pid)
  from pg_stat_activity
 where application_name = any ($1::text[]) and usename = current_user and datname = current_database()
