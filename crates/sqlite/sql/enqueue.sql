-- enqueue.sql: one new job, unless its id is there already. From values: of a `select` SQLite believes that it may fail
-- half-way, and makes a copy of every page to take it back. Index: unique id.
insert into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                          cancel_requested, submitted_at, due_at, key, terms, expires_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, ?8, ?9, ?10, ?11, ?12)
    on conflict (id) do nothing
