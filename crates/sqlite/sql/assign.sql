-- assign.sql: gives one job to a node, if it still is at the fence it was picked at, and at rest, and the node is there:
-- in the hands of one that has left, nobody would ever see to it. Index: unique id, primary key of the node.
update turnwise_job
   set state = 1, fence = fence + 1, node = ?3, assigned_at = ?4
 where id = ?1 and fence = ?2 and state not in (1, 2) and exists (select 1 from turnwise_node where incarnation = ?3)
returning id, fence, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, cancel_requested,
          submitted_at, terms
