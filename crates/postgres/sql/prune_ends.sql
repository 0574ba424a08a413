-- prune_ends.sql: those who wait for a job of a slice of history, which is about to be dropped, remember how it ended. (The name
-- of the table is that of one part; the others' are put in its place.) Where nobody waits for anybody it is not looked at.
-- Locks: those rows. Index: dependency_awaits; the slice is read whole.
update turnwise.dependency
   set ended = old.state
  from turnwise.history_success_rest as old
 where exists (select from turnwise.dependency)
   and old.state <> 4
   and dependency.awaits = old.id and dependency.ended is null
