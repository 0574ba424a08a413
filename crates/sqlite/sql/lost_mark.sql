-- lost_mark.sql: marks a node lost: from now on its beats are refused. Index: primary key.
update turnwise_node set lost = 1 where incarnation = ?1
