-- bury_assignments.sql: forgets what a node was to be told. Index: unique (node, batch).
delete from turnwise_assignment where node = ?1
