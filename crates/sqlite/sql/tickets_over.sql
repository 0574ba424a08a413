-- tickets_over.sql: deletes tickets and bearers that are over. Index: none, there are few.
delete from turnwise_ticket where until <= ?1
