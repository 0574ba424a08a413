-- workers.sql: what all foreign workers said when they registered.
select incarnation, worker from turnwise_node where worker is not null
