-- prune_history.sql: deletes finished jobs of a state that need not be kept, the oldest first. Index: turnwise_history_ended.
delete from turnwise_history
 where rowid in (select rowid from turnwise_history where state = ?1 and ended_at < ?2 order by ended_at limit ?3)
returning id
