-- node_hold.sql: no beat of this node, and nobody who takes its name, goes on until the transaction ends; a later statement sees
-- what beats under way have done. Assigning to it goes on: who assigns has locked the dispatcher's row, which comes next here.
-- Locks: the node's row. Index: primary key.
select 1 from turnwise.node where incarnation = $1 for no key update
