-- prune_lost.sql: delete at most $2 nodes that were lost before $1. Locks: those rows. Index: lost_node_lost_at.
delete from turnwise.lost_node
 where ctid = any (array(
       select ctid from turnwise.lost_node where lost_at < $1 order by lost_at limit $2
          for update skip locked))
