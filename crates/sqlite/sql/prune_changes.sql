-- prune_changes.sql: deletes changes that the dispatcher has seen. Index: primary key.
delete from turnwise_change
 where seq in (select seq from turnwise_change where seq <= ?1 order by seq limit ?2)
