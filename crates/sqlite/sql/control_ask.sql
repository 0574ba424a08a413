-- control_ask.sql: tells the node to stop a job, as a batch of its own named like the job. A repeated wish replaces
-- the first under a new number, so that the node is rung again. Index: unique (node, batch).
insert or replace into turnwise_assignment (node, batch, jobs, cancel) values (?1, ?2, x'', ?2)
