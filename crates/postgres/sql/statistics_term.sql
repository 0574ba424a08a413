-- statistics_term.sql: whether this term is the one that writes statistics. Locks: the one row, so that the next term begins after this
-- write. Index: primary key.
select from turnwise.statistics_writer where one and term = $1 for share
