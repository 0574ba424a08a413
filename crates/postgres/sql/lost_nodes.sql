-- lost_nodes.sql: the lost nodes, and whether their loss is noted. Locks: nothing. Index: none, there are few nodes.
select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost,
       exists (select from turnwise.dispatcher where holder = node.incarnation) as dispatcher, all_but, batch_size,
       lease, exists (select from turnwise.lost_node where lost_node.incarnation = node.incarnation) as noted
  from turnwise.node
 where lost
 order by incarnation
