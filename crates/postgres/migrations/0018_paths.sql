-- Functions of other users are out of reach of ours, whatever search_path finds.
alter function turnwise.new_id() set search_path = pg_catalog, pg_temp;
alter function turnwise.refuse(text) set search_path = pg_catalog, pg_temp;
alter function turnwise.claim(uuid[], text[], text[], boolean[], bigint[], smallint[])
    set search_path = pg_catalog, pg_temp;
alter function turnwise.replace_args(uuid[], text[], text[]) set search_path = pg_catalog, pg_temp;
alter function turnwise.check_that(boolean, text) set search_path = pg_catalog, pg_temp;
alter function turnwise.enqueue(text, json, text, text, int, timestamptz, text, text, timestamptz, text, text, interval, text,
                                uuid[], text)
    set search_path = pg_catalog, pg_temp;

-- Rings for the dispatcher, if it sleeps as the call is made and not when the statement began; to be called when something is
-- written: a dispatcher that lies down after the call sees that this transaction is under way, and looks again.
-- A transaction that rings cannot be prepared: set local turnwise.ring = off in such a one, and the dispatcher finds the job
-- at its next poll.
create or replace function turnwise.ring() returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    begin
        if current_setting('turnwise.ring', true) = 'off' then
            return;
        end if;
        perform pg_notify('turnwise', 'news') from turnwise.dispatcher where asleep;
    end
    $$;

