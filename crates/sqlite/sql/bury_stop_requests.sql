-- bury_stop_requests.sql: forgets what a node was asked to stop. Index: unique (node, job).
delete from turnwise_stop_request where node = ?1
