-- 0021_known_place.sql: which place this is costs a third of a millisecond to find out, and each look and each assignment asks. It
-- does not change while a session lasts, but on a standby that is promoted; so a session keeps it in a setting of its own.
create function turnwise.known_place() returns text
    language plpgsql stable
    as $$
    declare
        known text := pg_catalog.current_setting('turnwise.place', true);
    begin
        if known operator(pg_catalog.<>) '' then
            return known;
        end if;
        known := turnwise.place();
        if not pg_catalog.pg_is_in_recovery() then
            perform pg_catalog.set_config('turnwise.place', known, false);
        end if;
        return known;
    end
    $$;

-- In a language whose plans a session keeps.
create or replace function turnwise.lineage() returns bigint
    language plpgsql stable
    as $$
    begin
        return (select run.lineage from turnwise.run where run.place operator(pg_catalog.=) turnwise.known_place());
    end
    $$;
