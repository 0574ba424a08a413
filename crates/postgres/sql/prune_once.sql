-- prune_once.sql: deletes at most $2 keys that are older than $1 microseconds, the oldest first; one that is being taken again is left
-- out. Locks: these rows. Index: once_at; primary key.
with old as materialized (
    select caller, key
      from turnwise.once
     where at <= turnwise.now() - $1::bigint * interval '1 microsecond'
     order by at
     limit $2
       for update skip locked
)
delete from turnwise.once using old where once.caller = old.caller and once.key = old.key
