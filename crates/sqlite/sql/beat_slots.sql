-- beat_slots.sql: how many slots a node has said to have. Index: primary key.
select slots from turnwise_node where incarnation = ?1
