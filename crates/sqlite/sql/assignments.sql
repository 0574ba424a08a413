-- assignments.sql: all batches of a node. Index: unique (node, batch).
select batch, jobs, limited from turnwise_assignment where node = ?1 order by batch
