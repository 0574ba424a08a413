-- statistics_replace.sql: deletes what a dispatcher wrote of a minute. Locks: those rows. Index: statistics_at, for each kind.
delete from turnwise.statistics where span = 0 and kind = any ('{0,1,2,3}'::smallint[]) and at = $1 and term = $2
