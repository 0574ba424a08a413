-- vitals_open.sql: what keeps old rows of this database from being removed, the oldest first, at most $1: transactions, prepared ones,
-- and slots and standbys of replication. Locks: nothing. Index: none, it is no table.
select who, pid, seconds, behind
  from (
       select format('the transaction of %s (%s, pid %s, %s)', usename, coalesce(nullif(application_name, ''), 'no name'), pid, state),
              pid, extract(epoch from clock_timestamp() - xact_start)::float8, age(coalesce(backend_xmin, backend_xid))::bigint
         from pg_catalog.pg_stat_activity
        where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'
              and coalesce(backend_xmin, backend_xid) is not null
       union all
       select format('the prepared transaction %L of %s', gid, owner), null,
              extract(epoch from clock_timestamp() - prepared)::float8, age(transaction)::bigint
         from pg_catalog.pg_prepared_xacts
        where database = current_database()
       union all
       select format('the replication slot %s', slot_name), null, null, age(xmin)::bigint
         from pg_catalog.pg_replication_slots
        where xmin is not null
       union all
       select format('the standby %s', application_name), null, null, age(backend_xmin)::bigint
         from pg_catalog.pg_stat_replication
        where backend_xmin is not null
       ) as held (who, pid, seconds, behind)
 order by behind desc
 limit $1
