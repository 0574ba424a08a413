-- settle_discard.sql: deletes a job that ends, where nothing is kept of it and the end is an ordinary one:
-- in this node's hands at this fence, no cancel request that was not seen (?4: it was), waiting for no other job.
-- A job that does not match is read by settle_read.sql. Index: unique id.
delete from turnwise_job
 where id = ?1 and fence = ?2 and node = ?3 and state in (1, 2) and (?4 or not cancel_requested) and on_failure is null
