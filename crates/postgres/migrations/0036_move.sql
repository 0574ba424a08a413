-- 0036_move.sql: the move of everything from one database to another. The columns are explained in schema.sql.
create table turnwise.move (
    only_one boolean primary key default true check (only_one),
    id       uuid not null,
    side     smallint not null,
    other    text not null,
    position text not null,
    refusal  text not null,
    finished boolean not null,
    writing  boolean not null default false
);

-- Refuses a change of a database that is closed by a move: what its triggers call, which are there only while it is closed. With the
-- rights of its owner: who submits need not be able to read the move.
create function turnwise.refuse_change() returns trigger
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    as $$
    declare
        sentence text;
    begin
        select refusal into sentence from turnwise.move where not writing;
        if found then
            raise exception using message = sentence, errcode = 'TW001';
        end if;
        return null;
    end
    $$;
