-- nodes.sql: all nodes, the time, and whether the caller may read lost_node: a role that only submits asks for the time and may not.
-- Locks: nothing. Index: none, there are few nodes.
select turnwise.now() as now, incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost,
       exists (select from turnwise.dispatcher where holder = node.incarnation) as dispatcher, all_but, batch_size,
       lease, pg_catalog.has_table_privilege('turnwise.lost_node', 'select') as may, worker
  from (values (true)) as always
  left join turnwise.node on true
