-- logins_over.sql: deletes log-ins that are over. Index: none, there are few.
delete from turnwise_login where until <= ?1
