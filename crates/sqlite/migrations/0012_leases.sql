-- 0012_leases.sql: how long each node is believed to live after a beat. The columns are explained in schema.sql.

alter table turnwise_node add column lease integer not null default 5000000;
