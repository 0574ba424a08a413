-- bad_ends_seen.sql: at most $1 bad ends that every statement sees which is under way or begins from now on. One that began
-- before may still take such a job for unfinished, and its transaction may have no number yet.
-- Locks: nothing. Index: none, there are few. Who may not read others' activity is shown this much of it.
select id
  from turnwise.bad_end
 where until is null
   and age(xact::xid) > (
       select coalesce(max(age(backend_xmin)), -1) from pg_stat_activity where datname = current_database())
 limit $1
