-- lost_mark.sql: from now on this node's beats are refused. Index: primary key.
update turnwise_node set lost = 1 where incarnation = ?1
