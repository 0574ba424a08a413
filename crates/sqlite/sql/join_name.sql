-- join_name.sql: the name of an incarnation's node. Index: primary key.
select name from turnwise_node where incarnation = ?1
