-- 0019_sessions.sql: how long each node is believed to live after a beat, and the session of the one that dispatches. The columns are
-- explained in schema.sql.
alter table turnwise.node add column lease bigint not null default 5000000;
alter table turnwise.dispatcher add column session bigint;

-- Who dispatches, and whether the session is there by which its process can be seen. Null: there is none to be seen.
create function turnwise.leader()
    returns table (holder uuid, epoch bigint, until timestamptz, lease bigint, host text, there boolean)
    language sql stable
    set search_path = pg_catalog, pg_temp
    as $$
    select dispatcher.holder, dispatcher.epoch, dispatcher.until, node.lease, node.host,
           case when dispatcher.session is not null then exists (
               select from pg_locks
                where locktype = 'advisory' and objsubid = 1 and granted
                  and database = (select oid from pg_database where datname = current_database())
                  and (classid::bigint << 32 | objid::bigint) = dispatcher.session)
           end
      from turnwise.dispatcher
      join turnwise.node on node.incarnation = dispatcher.holder
     where dispatcher.until is not null
    $$;
