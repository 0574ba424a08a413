-- nodes.sql: all nodes, and the time. Locks: nothing. Index: none, there are few nodes.
select turnwise.now() as now, incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost,
       exists (select from turnwise.dispatcher where holder = node.incarnation) as dispatcher, all_but, batch_size,
       lease
  from (values (true)) as always
  left join turnwise.node on true
