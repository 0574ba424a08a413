-- 0029_workers.sql: nodes whose tasks run in other programs. The column is explained in schema.sql.
alter table turnwise_node add column worker text;
