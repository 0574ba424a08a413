-- 0011_hands.sql: what is in a node's hands is found by its batches. The index was written twice for each job.

drop index if exists turnwise_job_node;
