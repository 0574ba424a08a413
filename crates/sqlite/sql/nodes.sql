-- nodes.sql: all nodes, and whether each one dispatches.
select n.incarnation, n.name, n.host, n.slots, n.queue_capacity, n.queues, n.tasks, n.joined_at, n.lease_until, n.lost,
       n.incarnation is d.holder, n.all_but, n.batch_size, n.lease
  from turnwise_node n, turnwise_dispatcher d
 order by n.incarnation
