-- An id that was acknowledged is stored once, whatever moment its repeat comes at.

-- Takes back those of the jobs $1, which this transaction has just stored, that have ended before; tells which. To be called
-- after the insert: its statements have younger snapshots than the insert had, and so see a job that was settled while the
-- insert waited for its row. (To look first and insert afterwards leaves a moment in which such a job is in neither table.)
-- Ids are in the order of time: one beyond all that have ended is in no slice of history, and hardly another comes. The
-- rest is looked up in each slice; "offset 0" keeps that a look by key for each row, whatever the planner believes.
-- In a transaction of repeatable read or above there are no younger snapshots: see docs/guides/transactions.md.
-- Locks: the rows it takes back. Index: history_id, the primary key of job.
create function turnwise.take_back(ids uuid[]) returns uuid[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        last  uuid;
        ended uuid[];
    begin
        select history.id into last from turnwise.history order by history.id desc limit 1;
        select array_agg(t.id) into ended
          from unnest(ids) as t (id)
         where t.id <= last
           and exists (select from turnwise.history where history.id = t.id offset 0);
        if ended is not null then
            delete from turnwise.job where job.id = any (ended);
        end if;
        return ended;
    end
    $$;
