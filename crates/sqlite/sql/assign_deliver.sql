-- assign_deliver.sql: what a node is to start, added to what the batch holds already. The cast keeps bytes bytes: `||` makes
-- text of them. Index: unique (node, batch).
insert into turnwise_assignment (node, batch, jobs, cancel, limited)
values (?1, ?2, ?3, x'', ?4)
    on conflict (node, batch) do update
   set jobs = cast(jobs || excluded.jobs as blob), limited = cast(limited || excluded.limited as blob)
