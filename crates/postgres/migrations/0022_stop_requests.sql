-- 0022_stop_requests.sql: that a node shall stop a job is a row of its own kind, not an assignment of no jobs. The columns are explained in
-- schema.sql.
create table turnwise.stop_request (
    node  uuid not null,
    job   uuid not null,
    fence bigint not null,
    primary key (node, job)
);

insert into turnwise.stop_request (node, job, fence)
select node, id, fence from turnwise.job where cancel_requested and state in (1, 2) and node is not null;

delete from turnwise.assignment where jobs = '{}';
alter table turnwise.assignment drop column cancel;
