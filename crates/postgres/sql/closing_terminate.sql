-- closing_terminate.sql: end the connections on which tasks of lost nodes have transactions open, as far as this role may,
-- so that their locks do not linger. Such a transaction could not have committed. Whatever role this session has taken on: only
-- connections of the user that it logged in as, and never this connection. Locks: nothing.
select pg_terminate_backend(pid)
  from pg_stat_activity
 where application_name = any ($1::text[]) and datname = current_database() and backend_type = 'client backend'
   and usename = session_user and pg_has_role(usesysid, 'usage') and pid <> pg_backend_pid()
