-- enqueue.sql: one new job, unless its id is there already, waiting or finished.
-- Index: unique id of the job, primary key of history.
insert into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                          cancel_requested, submitted_at, due_at, key, terms, expires_at)
select ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, ?8, ?9, ?10, ?11, ?12
 where not exists (select 1 from turnwise_history where id = ?1)
    on conflict (id) do nothing
