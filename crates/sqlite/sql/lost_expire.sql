-- lost_expire.sql: marks the nodes lost whose lease is over.
update turnwise_node set lost = 1 where lease_until < ?1 and lost = 0
