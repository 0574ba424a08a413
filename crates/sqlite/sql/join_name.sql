-- join_name.sql: what an incarnation is called. Index: primary key.
select name from turnwise_node where incarnation = ?1
