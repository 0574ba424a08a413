-- statistics_lead.sql: the dispatcher of epoch $1 begins to write statistics, unless one of a greater epoch does. Locks: the one row.
-- Index: primary key.
update turnwise.statistics_writer set epoch = $1, term = term + 1 where one and epoch <= $1 returning term
