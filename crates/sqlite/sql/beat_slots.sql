-- beat_slots.sql: how many slots a node has, by its last join or beat, and which incarnation of its name is to take no more jobs.
-- Index: primary keys.
select slots, (select value from turnwise_memo where kind = 12 and name = turnwise_node.name) from turnwise_node where incarnation = ?1
