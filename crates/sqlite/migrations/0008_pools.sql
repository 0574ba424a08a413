-- 0008_pools.sql: whether a node's queues are the ones it does not serve. The columns are explained in schema.sql.

alter table turnwise_node add column all_but integer not null default 0;
