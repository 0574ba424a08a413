-- prune_told.sql: of $2 jobs of a part of history that ended before $1, mark those that have no story any more: these may be
-- deleted. (The table named here stands for one part; the code puts the name of another in its place.)
-- Locks: those rows, except rows that another transaction has locked. Index: history_noted; primary keys.
update turnwise.history_success_rest as old
   set noted = false
 where id = any (array(
       select id from turnwise.history_success_rest where noted and ended_at < $1 order by id limit $2
          for update skip locked))
   and noted and ended_at < $1
   and not exists (select from turnwise.attempt where attempt.job = old.id offset 0)
   and not exists (select from turnwise.log where log.job = old.id offset 0)
   and not exists (select from turnwise.step where step.job = old.id offset 0)
   and not exists (select from turnwise.progress where progress.job = old.id offset 0)
   and not exists (select from turnwise.dependency where dependency.job = old.id offset 0)
