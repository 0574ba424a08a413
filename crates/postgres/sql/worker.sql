-- worker.sql: a foreign worker, lost or not, and what is set for the installation.
-- Locks: nothing. Index: primary key.
select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost, false as dispatcher, all_but,
       batch_size, lease, worker, turnwise.now() as now, turnwise.begin_lineage() as lineage,
       (select value from turnwise.memo where kind = 0 order by name desc limit 1) as installation
  from turnwise.node
 where incarnation = $1 and worker is not null
