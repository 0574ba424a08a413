-- bury_node.sql: forgets a node. Index: primary key.
delete from turnwise_node where incarnation = ?1
