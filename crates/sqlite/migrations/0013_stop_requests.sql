-- 0013_stop_requests.sql: that a node shall stop a job is a row of its own kind, not an assignment of no jobs. The columns are explained in
-- schema.sql.
create table turnwise_stop_request (
    seq   integer primary key autoincrement,
    node  blob not null,
    job   blob not null,
    fence integer not null,
    unique (node, job)
) strict;

insert into turnwise_stop_request (node, job, fence)
select node, id, fence from turnwise_job where cancel_requested and state in (1, 2) and node is not null;

delete from turnwise_assignment where jobs = x'';
alter table turnwise_assignment drop column cancel;
