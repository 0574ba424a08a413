-- Which history of commits the database goes on: the timeline. A failover or a restore begins a new one, and may have taken
-- back what was committed last; a dispatcher from before must read everything again. An epoch is this times a billion, and
-- the term. Where the server does not tell, it is 0: there a dispatcher notices only when its lease has run out.
do $do$
begin
    perform pg_walfile_name(pg_current_wal_lsn());
    create function turnwise.lineage() returns bigint
        language sql stable
        as $$ select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint $$;
exception when others then
    create function turnwise.lineage() returns bigint language sql stable as 'select 0::bigint';
end
$do$;
