-- control_redrive.sql: a finished job comes back, under a new number so that the dispatcher sees it as new; forget.sql takes it
-- out of history in the same transaction. History does not keep which jobs it waited for. Index: primary key.
insert into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                          cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at,
                          finished_at, key, terms, expires_at, fingerprint)
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at,
       finished_at, key, terms, expires_at, fingerprint
  from turnwise_history
 where id = ?1
