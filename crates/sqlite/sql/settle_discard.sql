-- settle_discard.sql: the end of a job of which nothing is kept, as ordinary ends are: in this node's hands at this fence, no
-- cancel request that was not seen (?4: it was), waiting for nobody. Whatever it does not fit is looked at by standing.sql.
-- Index: unique id.
delete from turnwise_job
 where id = ?1 and fence = ?2 and node = ?3 and state in (1, 2) and (?4 or not cancel_requested) and on_failure is null
