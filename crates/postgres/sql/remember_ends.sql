-- remember_ends.sql: those of the jobs $1 that are there no more, after they were deleted in the same transaction, ended like
-- this ($2) and leave no other trace: those who wait for them remember it.
-- Locks: those rows. Index: primary keys, dependency_awaits.
update turnwise.dependency
   set ended = t.state
  from unnest($1::uuid[], $2::smallint[]) as t (id, state)
 where dependency.awaits = t.id
   and not exists (select from turnwise.job where job.id = t.id offset 0)
   and not exists (select from turnwise.history where history.id = t.id offset 0)
