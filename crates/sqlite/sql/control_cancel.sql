-- control_cancel.sql: notes that a person wants a job stopped that is in a node's hands. Guard: the fence.
update turnwise_job set cancel_requested = 1 where seq = ?1 and fence = ?2
