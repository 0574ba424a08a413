-- lost_note.sql: note that the nodes $1 are lost, with how many jobs they hold and the first $2 of these; what is noted stays.
-- Locks: nothing but the new rows. Index: primary key of node; job is read whole (see leave.sql), once for each lost node.
insert into turnwise.lost_node (incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, all_but,
                                batch_size, lease, lost_at, held, jobs)
select node.incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, all_but, batch_size, lease,
       turnwise.now(), coalesce(hands.held, 0), coalesce(hands.jobs[:$2::bigint], '{}')
  from turnwise.node
  left join (
       select job.node, count(*) as held, array_agg(job.id order by job.id) as jobs
         from turnwise.job
        where job.node = any ($1::uuid[]) and job.state in (1, 2)
        group by job.node
  ) as hands on hands.node = node.incarnation
 where node.incarnation = any ($1::uuid[])
    on conflict (incarnation) do nothing
