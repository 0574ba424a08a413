-- prune_once.sql: deletes keys up to this time, the oldest first. Index: turnwise_once_at.
delete from turnwise_once
 where (caller, key) in (select caller, key from turnwise_once where at <= ?1 order by at limit ?2)
