-- join.sql: makes a node known; a repeated join changes nothing.
insert into turnwise_node (incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost,
                           all_but, batch_size, lease, worker)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?11, ?12, ?13)
    on conflict (incarnation) do nothing
