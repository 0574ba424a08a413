-- move_in_hands.sql: whether any job is in a node's hands. Locks: nothing. Reads all jobs: it is asked once in a move.
select exists (select from turnwise.job where state in (1, 2))
