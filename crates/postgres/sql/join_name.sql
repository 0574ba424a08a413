-- join_name.sql: the other node that is alive under this name.
-- Locks: that node's row, so that its lease cannot be prolonged while it is being replaced; not against assigning to it: an
-- assign has locked the dispatcher's row, which is locked next here. Index: node_name.
select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost,
       exists (select from turnwise.dispatcher where holder = node.incarnation) as dispatcher, all_but, batch_size,
       lease, turnwise.now() as now
  from turnwise.node
 where name = $1 and not lost and incarnation <> $2
   for no key update of node
