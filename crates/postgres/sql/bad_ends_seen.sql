-- bad_ends_seen.sql: at most $1 bad ends that are visible to every statement that is running or starts from now on. A statement
-- with an older snapshot may still see such a job as unfinished, and its transaction may have no number yet.
-- Locks: nothing. Index: none, there are few. A role that may not read others' activity still sees backend_xmin.
select id
  from turnwise.bad_end
 where until is null
   and age(xact::xid) > (
       select coalesce(max(age(backend_xmin)), -1) from pg_stat_activity where datname = current_database())
 limit $1
