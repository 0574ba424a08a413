-- move_in_hands.sql: whether any job is in a node's hands. Reads all jobs: it is asked once in a move.
select exists (select 1 from turnwise_job where state in (1, 2))
