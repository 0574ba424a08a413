-- settle_delivered.sql: deletes a batch whose jobs have settled. Index: unique (node, batch).
delete from turnwise_assignment where node = ?1 and batch = ?2
