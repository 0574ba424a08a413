-- prune_history.sql: history beyond the retention, the oldest first. Index: turnwise_history_ended.
delete from turnwise_history
 where rowid in (select rowid from turnwise_history where ended_at < ?1 order by ended_at limit ?2)
returning id
