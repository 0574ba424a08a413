-- worker_mail.sql: which of these nodes should look: those with batches or requests to stop, and those that are lost or gone.
-- Locks: nothing. Index: primary keys.
select asked.node
  from unnest($1::uuid[]) as asked (node)
 where exists (select from turnwise.assignment where assignment.node = asked.node)
    or exists (select from turnwise.stop_request where stop_request.node = asked.node)
    or not exists (select from turnwise.node where node.incarnation = asked.node and not node.lost)
