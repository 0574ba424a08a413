-- A crash of the server, a restore and a copy begin a new lineage, as a failover does (docs/decisions/0013).

-- A mark of this run of the database. PostgreSQL empties an unlogged table when it recovers from a crash, in which it may have
-- forgotten transaction numbers that it gave out, and gives them out again; and on a server that was promoted or restored to
-- a point in time. A dump, a template copy and pg_upgrade carry the row along: place says for which database it was made.
create unlogged table turnwise.run (
    only_one boolean primary key default true check (only_one),
    lineage  bigint not null,
    place    text not null
);

-- The cluster, its timeline and the database. What the server does not tell is left out.
create function turnwise.place() returns text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        cluster  text := '';
        timeline text := '';
    begin
        begin
            select system_identifier::text into cluster from pg_control_system();
        exception when others then null;
        end;
        begin
            timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
        exception when others then null;
        end;
        return format('%s/%s/%s', cluster, timeline, (select oid from pg_database where datname = current_database()));
    end
    $$;

-- Which history of commits the database goes on. A failover, a restore, a copy and a crash begin a new one, and may have taken
-- back what was committed last; a dispatcher from before must read everything again. Null until a node has beaten.
drop function turnwise.lineage();
create function turnwise.lineage() returns bigint
    language sql stable
    as $$ select run.lineage from turnwise.run where run.place operator(pg_catalog.=) turnwise.place() $$;

-- The same, and if there is none yet, begins it.
create function turnwise.begin_lineage() returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        known bigint := turnwise.lineage();
    begin
        if known is null then
            insert into turnwise.run (lineage, place)
            values (('x' || left(translate(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint, turnwise.place())
            on conflict (only_one) do update
               set lineage = excluded.lineage, place = excluded.place
             where run.place <> excluded.place;
            -- Read, for another may have been quicker.
            known := turnwise.lineage();
        end if;
        return known;
    end
    $$;

-- The lineage that the holder was chosen in. In another one, nobody dispatches.
alter table turnwise.dispatcher add column lineage bigint;
