-- 0015_shown.sql: which job holds a key is found by the job, too; lost nodes are shown for a day; a step may declare that older
-- binaries do not work with it. The columns are explained in schema.sql.
create index turnwise_unique_key_job on turnwise_unique_key (job);

create table turnwise_lost_node (
    incarnation    blob primary key not null,
    name           text not null,
    host           text not null,
    slots          integer not null,
    queue_capacity integer not null,
    queues         text,
    tasks          text not null,
    joined_at      integer not null,
    lease_until    integer not null,
    all_but        integer not null,
    batch_size     integer,
    lease          integer not null,
    lost_at        integer not null,
    held           integer not null,
    jobs           blob not null
) strict;

create index turnwise_lost_node_lost_at on turnwise_lost_node (lost_at, incarnation);

alter table turnwise_migration add column breaks integer not null default 0;
