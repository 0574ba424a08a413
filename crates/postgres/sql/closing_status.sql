-- closing_status.sql: what became of transaction $1, whose reply was lost. The connection $2 of node $3 that it was on is
-- ended if the transaction is still open there: no client reads from that connection any more. No other connection is ended:
-- after a failover the database may have given the number to another transaction.
-- Locks: nothing. Index: none, there are few connections.
select pg_xact_status($1::text::xid8) as status,
       (select count(pg_terminate_backend(pid))
          from pg_stat_activity
         where backend_xid = $1::text::xid8::xid and pid = $2 and application_name = $3 and usename = session_user
           and pid <> pg_backend_pid()
       ) as ended
