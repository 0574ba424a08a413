-- lost_silent.sql: marks a node lost that the dispatcher found silent, if its lease still ends at the time that the
-- dispatcher saw. Index: primary key.
update turnwise_node set lost = 1 where incarnation = ?1 and lease_until = ?2 and lost = 0
