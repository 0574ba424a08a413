-- statistics_replace_errors.sql: deletes what a dispatcher wrote of the errors of a minute. Locks: those rows. Index: primary key.
delete from turnwise.statistics_error where span = 0 and at = $1 and term = $2
