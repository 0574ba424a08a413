-- lost_noted.sql: the nodes that were lost at ?1 or later, the last one first, at most ?2. Index: turnwise_lost_node_lost_at.
select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, 1, 0, all_but, batch_size, lease,
       lost_at, held, jobs
  from turnwise_lost_node
 where lost_at >= ?1
 order by lost_at desc, incarnation desc
 limit ?2
