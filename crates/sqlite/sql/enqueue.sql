-- enqueue.sql: stores new jobs, unless their ids are there already. Not from a `select`: SQLite assumes that it may fail half-way,
-- and copies every page to be able to undo it. `or fail` avoids the same copies for many rows at once: a failure rolls back
-- the whole request anyway. Index: unique id.
insert or fail into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                                  cancel_requested, submitted_at, due_at, key, terms, expires_at)
values (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, ?, ?, ?, ?)
    on conflict (id) do nothing
