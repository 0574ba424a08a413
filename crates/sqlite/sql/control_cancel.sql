-- control_cancel.sql: records that a person wants to stop a job that is in a node's hands. Guard: the fence.
update turnwise_job set cancel_requested = 1 where seq = ?1 and fence = ?2
