-- statistics_lead.sql: a dispatcher begins to write statistics, unless one of a greater epoch does. Index: primary key.
update turnwise_statistics_writer set epoch = ?1, term = term + 1 where one = 1 and epoch <= ?1 returning term
