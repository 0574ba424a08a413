-- control_stop.sql: asks the node to stop a job. A repeated request replaces the first under a new number, so that the node is rung
-- again. Index: unique (node, job).
insert or replace into turnwise_stop_request (node, job, fence) values (?1, ?2, ?3)
