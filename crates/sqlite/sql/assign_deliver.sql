-- assign_deliver.sql: adds jobs that a node is to start to what its batch holds already. The cast keeps blobs: `||` would make
-- text of them. Index: unique (node, batch).
insert into turnwise_assignment (node, batch, jobs, limited)
values (?1, ?2, ?3, ?4)
    on conflict (node, batch) do update
   set jobs = cast(jobs || excluded.jobs as blob), limited = cast(limited || excluded.limited as blob)
