-- 0010_shares.sql: how many jobs a node is given at once. The columns are explained in schema.sql.

alter table turnwise_node add column batch_size integer;
