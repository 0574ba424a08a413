-- statistics_take.sql: takes out the rows of a queue that begin from $3 on and before $4, to be merged. Locks: those rows.
-- Index: primary key, for each kind.
delete from turnwise.statistics
 where span = $1 and kind = any ('{0,1,2,3}'::smallint[]) and queue = $2 and at >= $3 and at < $4
returning queue, kind, name, sums
