-- worker.sql: a foreign worker, lost or not. Index: primary key.
select n.incarnation, n.name, n.host, n.slots, n.queue_capacity, n.queues, n.tasks, n.joined_at, n.lease_until, n.lost,
       0, n.all_but, n.batch_size, n.lease, n.worker
  from turnwise_node n
 where n.incarnation = ?1 and n.worker is not null
