-- beat.sql: prolongs a node's lease, unless it is lost. Index: primary key.
update turnwise_node set lease_until = ?2, slots = ?3 where incarnation = ?1 and lost = 0
