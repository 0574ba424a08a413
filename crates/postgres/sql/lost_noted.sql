-- lost_noted.sql: the nodes that were lost at $1 or later, the last one first, at most $2. Locks: nothing. Index: lost_node_lost_at.
select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, true as lost, false as dispatcher,
       all_but, batch_size, lease, lost_at, held, jobs
  from turnwise.lost_node
 where lost_at >= $1
 order by lost_at desc, incarnation desc
 limit $2
