-- worker_mail.sql: whether a node should look: it has batches or requests to stop, or is lost or gone. Index: primary keys.
select exists (select 1 from turnwise_assignment where node = ?1)
    or exists (select 1 from turnwise_stop_request where node = ?1)
    or not exists (select 1 from turnwise_node where incarnation = ?1 and lost = 0)
