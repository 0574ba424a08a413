-- node_lock.sql: from here on nothing is assigned to this node until the transaction ends; a later statement sees all
-- that was. Locks: the node's row. Index: primary key.
select 1 from turnwise.node where incarnation = $1 for update
