-- settle_finish.sql: a finished job enters history; settle_remove.sql takes it out of the unfinished ones in the same transaction.
-- Guard: the fence. Index: primary key.
insert into turnwise_history (id, seq, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                              cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at,
                              finished_at, ended_at, key, terms, expires_at, fingerprint)
select id, seq, task, args, queue, grp, priority, retry, ?12, ?3, ?4, ?5, ?7,
       cancel_requested, coalesce(?13, node_name), ?14, coalesce(?6, error), submitted_at, due_at, assigned_at,
       coalesce(?8, started_at), coalesce(?9, finished_at, ?15), ?15, key, terms,
       case when not ?11 then expires_at end, coalesce(?10, fingerprint)
  from turnwise_job
 where seq = ?1 and fence = ?2
