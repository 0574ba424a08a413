-- move_living.sql: the nodes that are alive. Locks: nothing. Reads the few nodes.
select name, lease_until from turnwise.node where not lost and lease_until >= turnwise.now() order by name
