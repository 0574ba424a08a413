-- prune_ends.sql: jobs that wait for a job of a slice of history, which is about to be dropped, record how that job ended. (The
-- table named here stands for one part; the code puts the name of another in its place.) Where no job waits for another, the
-- slice is not read.
-- Locks: those rows. Index: dependency_awaits; the slice is read whole.
update turnwise.dependency
   set ended = old.state
  from turnwise.history_success_rest as old
 where exists (select from turnwise.dependency)
   and old.state <> 4
   and dependency.awaits = old.id and dependency.ended is null
