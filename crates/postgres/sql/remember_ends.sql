-- remember_ends.sql: record how those of the jobs $1 ended ($2) that no longer exist, after they were deleted in the same
-- transaction: nothing else records it.
-- Locks: the new rows. Index: primary keys.
insert into turnwise.bad_end (id, state)
select t.id, t.state
  from unnest($1::uuid[], $2::smallint[]) as t (id, state)
 where t.state <> 4
   and not exists (select from turnwise.job where job.id = t.id offset 0)
   and not exists (select from turnwise.history where history.id = t.id offset 0)
 order by t.id
on conflict (id) do update set state = excluded.state, xact = excluded.xact, until = null
