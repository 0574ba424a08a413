-- statistics_term.sql: whether this term is the one that writes statistics. Index: primary key.
select exists (select 1 from turnwise_statistics_writer where one = 1 and term = ?1)
