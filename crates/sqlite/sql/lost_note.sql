-- lost_note.sql: notes that a node is lost at the time ?2 with ?3 jobs in its hands, of which ?4 are the first; what is noted stays.
-- Index: primary keys.
insert into turnwise_lost_node (incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, all_but,
                                batch_size, lease, lost_at, held, jobs)
select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, all_but, batch_size, lease, ?2, ?3, ?4
  from turnwise_node
 where incarnation = ?1
    on conflict (incarnation) do nothing
