-- beat.sql: prolong a node's lease and, if it leads or may, the dispatcher's; return the living nodes to the dispatcher.
-- A dispatcher that no longer wants to lead gives the lead up. A lead of another lineage is free to take, and so is the lead of
-- epoch $6 that lasts until $7: the caller found it to be over. The first epoch of a lineage is a leap away from the last one
-- (Epoch::next says why).
-- $5 is the session by which the new dispatcher's process can be seen. A node that would dispatch and does not gets the leader in
-- the reply. Every node gets what is set for the installation, and which incarnation of its name is to take no more jobs.
-- Rings for the lead when it is given up, when another node has more or fewer slots than it had, and when the dispatcher can be seen
-- by another session than before: a node that heard of it earlier would not look for that session until its own next beat.
-- An earlier beat of this node may still be under way and take the lead that this one gives up: this statement's snapshot does
-- not show that. So a beat without $4 first locks its node's row and compares versions; if the row has moved on, it reads the
-- current version of the dispatcher's row.
-- Locks: the node's row, then the dispatcher's, like leave and join. Index: primary keys; node is read whole by the dispatcher.
with here as materialized (
    select turnwise.begin_lineage() as lineage
), was as (
    select slots, xmin as version from turnwise.node where incarnation = $1
), still as materialized (
    select xmin as version from turnwise.node where incarnation = $1 and not $4::boolean for no key update
), since as materialized (
    select exists (select from still join was on still.version is distinct from was.version) as moved
), held as materialized (
    select session from turnwise.dispatcher
), me as (
    update turnwise.node
       set lease_until = turnwise.now() + $2::bigint * interval '1 microsecond', slots = $3
     where incarnation = $1 and not lost and (select count(*) from still) <= 1
    returning *
), led as (
    update turnwise.dispatcher
       set epoch = case when not $4 or (holder = $1 and dispatcher.lineage = here.lineage) then epoch
                        when dispatcher.lineage = here.lineage then epoch + 1
                        else epoch + 1 + here.lineage % 1000000000 end,
           lineage = case when $4 then here.lineage else dispatcher.lineage end,
           holder = case when $4 then $1 when holder <> $1 then holder end,
           session = case when $4 then $5::bigint when holder <> $1 then session end,
           until = case when $4 then turnwise.now() + $2 * interval '1 microsecond' else until end
      from here
     where exists (select from me)
       and case when $4 then holder = $1 or holder is null or until is null or until < turnwise.now()
                               or dispatcher.lineage is distinct from here.lineage
                               or (epoch = $6::bigint and until = $7::timestamptz)
                else holder = $1 or (select moved from since) end
    returning epoch
), rung as materialized (
    select pg_notify('turnwise', 'lead')
     where exists (select from led where not $4)
        or exists (select from led, held where $4 and held.session is distinct from $5 and $5 is not null)
        or (not exists (select from led) and exists (select from me, was where me.slots <> was.slots))
)
select turnwise.now() as now, exists (select from me) as alive, (select epoch from led where $4) as epoch,
       (select count(*) from rung) > 0 as rang, (select lineage from here) as lineage,
       leader.epoch, leader.until, leader.lease, leader.host, leader.there,
       (select value from turnwise.memo where kind = 0 order by name desc limit 1) as installation,
       (select memo.value from turnwise.memo join me on memo.name = me.name where memo.kind = 12) as drained, fleet.*
  from (values (true)) as always
  left join lateral (select * from turnwise.leader() where $4 and not exists (select from led)) as leader on leader.holder <> $1
  left join (
       select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost,
              true as dispatcher, all_but, batch_size, lease
         from me
        union all
       select incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until, lost, false,
              all_but, batch_size, lease
         from turnwise.node
        where not lost and lease_until >= turnwise.now() and incarnation <> $1
  ) as fleet on $4 and exists (select from led)
