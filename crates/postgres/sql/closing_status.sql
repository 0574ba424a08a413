-- closing_status.sql: what became of transaction $1, whose reply was lost. A connection that still has it open is ended:
-- nobody listens to it any more. Locks: nothing. Index: none, there are few connections.
select pg_xact_status($1::text::xid8) as status,
       (select count(pg_terminate_backend(pid))
          from pg_stat_activity
         where backend_xid = $1::text::xid8::xid and usename = current_user and pid <> pg_backend_pid()
       ) as ended
