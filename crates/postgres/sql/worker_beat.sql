-- worker_beat.sql: prolong the leases of foreign workers and set their slots; the time, what is set for the installation, and those that
-- are alive. One that a person has drained has none. Rings for the lead if one has more or fewer slots than before.
-- Locks: the nodes' rows, in order, as others of the same workers' beats do. Index: primary key.
with was as materialized (
    select incarnation, slots,
           exists (select from turnwise.memo
                    where kind = 12 and memo.name = node.name and memo.value = node.incarnation::text) as drained
      from turnwise.node
     where incarnation = any ($1::uuid[]) and not lost
     order by incarnation
       for no key update of node
), beaten as (
    update turnwise.node
       set lease_until = turnwise.now() + beat.lease * interval '1 microsecond', slots = case when was.drained then 0 else beat.slots end
      from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as beat (incarnation, slots, lease), was
     where node.incarnation = beat.incarnation and was.incarnation = beat.incarnation
    returning node.incarnation, node.slots <> was.slots as resized
), rung as materialized (
    select pg_notify('turnwise', 'lead') where exists (select from beaten where resized)
)
select turnwise.now() as now, turnwise.begin_lineage() as lineage, (select count(*) from rung) > 0 as rang,
       (select value from turnwise.memo where kind = 0 order by name desc limit 1) as installation,
       (select array_agg(incarnation) from beaten) as alive
