-- enqueue.sql: new jobs, unless their ids are there already. From values: of a `select` SQLite believes that it may fail
-- half-way, and makes a copy of every page to take it back; `or fail` says the same of many rows at once, since whoever hears
-- of a failure takes all of the request back. Index: unique id.
insert or fail into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                                  cancel_requested, submitted_at, due_at, key, terms, expires_at)
values (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, ?, ?, ?, ?)
    on conflict (id) do nothing
