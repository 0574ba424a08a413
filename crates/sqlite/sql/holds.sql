-- holds.sql: whether anything is in a node's hands. Index: turnwise_job_node.
select exists (select 1 from turnwise_job where node = ?1 and state in (1, 2))
