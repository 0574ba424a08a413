-- 0025_shown.sql: which job holds a key is found by the job, too; lost nodes are shown for a day; a step may declare that older
-- binaries do not work with it. The columns are explained in schema.sql.
create index unique_key_job on turnwise.unique_key (job);

create table turnwise.lost_node (
    incarnation    uuid primary key,
    name           text not null,
    host           text not null,
    slots          bigint not null,
    queue_capacity bigint not null,
    queues         text[],
    tasks          text[] not null,
    joined_at      timestamptz not null,
    lease_until    timestamptz not null,
    all_but        boolean not null,
    batch_size     bigint,
    lease          bigint not null,
    lost_at        timestamptz not null,
    held           bigint not null,
    jobs           uuid[] not null
);
create index lost_node_lost_at on turnwise.lost_node (lost_at);

alter table turnwise.migration add column breaks boolean not null default false;
