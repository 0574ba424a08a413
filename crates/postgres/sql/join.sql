-- join.sql: make a node known; the same incarnation again changes nothing.
-- Rings for the lead, so that the dispatcher sees the new node at once.
-- Locks: the new row; waits for another join under the same name. Index: primary key, node_name.
with stored as (
    insert into turnwise.node (incarnation, name, host, slots, queue_capacity, queues, tasks, joined_at, lease_until,
                               all_but, batch_size, lease, worker)
    values ($1, $2, $3, $4, $5, $6, $7, turnwise.now(), turnwise.now() + $8::bigint * interval '1 microsecond', $9, $10, $8, $11)
    on conflict (incarnation) do nothing
    returning name
), rung as materialized (
    select pg_notify('turnwise', 'lead') from stored
)
select turnwise.now() as now from (values (true)) as always where (select count(*) from rung) >= 0
