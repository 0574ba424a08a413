-- control_redrive.sql: a finished job comes back, under a new number so that the dispatcher sees it as new; forget.sql takes it
-- out of history in the same transaction. The time to begin is not carried over: a person who has it run again does not
-- mean the old one. Index: primary key.
insert into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                          cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at,
                          finished_at, key, terms, fingerprint)
select id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
       cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at,
       finished_at, key, terms, fingerprint
  from turnwise_history
 where id = ?1
