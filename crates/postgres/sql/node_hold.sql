-- node_hold.sql: no beat of this node, and no join under its name, proceeds until the transaction ends; a later statement sees
-- what beats in flight have done. Assigning to it goes on: an assign has locked the dispatcher's row, which is locked next here.
-- Locks: the node's row. Index: primary key.
select 1 from turnwise.node where incarnation = $1 for no key update
