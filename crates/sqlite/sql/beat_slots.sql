-- beat_slots.sql: how many slots a node has, by its last join or beat. Index: primary key.
select slots from turnwise_node where incarnation = ?1
