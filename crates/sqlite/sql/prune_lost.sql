-- prune_lost.sql: deletes nodes that were lost before ?1, the first one first. Index: turnwise_lost_node_lost_at.
delete from turnwise_lost_node
 where incarnation in (select incarnation from turnwise_lost_node where lost_at < ?1 order by lost_at limit ?2)
