-- bury_assignments.sql: forgets a node's batches. Index: unique (node, batch).
delete from turnwise_assignment where node = ?1
