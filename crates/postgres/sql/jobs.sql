-- jobs.sql: jobs and finished jobs, each newest first; the caller merges the two.
-- $6 and $7 bound the time of the submit, $8 and $9 the ids. $10, $11: whether unfinished jobs and finished ones can be among them; a
-- table that can have none is not read. One statement, so that a job on its way to history is returned once. Locks: nothing.
-- Index: primary keys, backwards.
(select job.id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
        node.name as node_name, null::json as result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
        key, terms, fingerprint, expires_at
   from turnwise.job
   left join turnwise.node on node.incarnation = job.node
  where $10::boolean and (cardinality($1::smallint[]) = 0 or state = any ($1))
    and ($2::text is null or queue = $2)
    and ($3::text is null or grp = $3)
    and ($4::text is null or task = $4)
    and ($6::timestamptz is null or submitted_at >= $6)
    and ($7::timestamptz is null or submitted_at < $7)
    and job.id between $8 and $9
  order by job.id desc
  limit $5)
 union all
(select id, task, queue, grp, priority, args, retry, state, attempt, retries, crashes, fence, cancel_requested,
        node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at,
        key, terms, fingerprint, expires_at
   from turnwise.history
  where $11::boolean and (cardinality($1::smallint[]) = 0 or state = any ($1))
    and ($2::text is null or queue = $2)
    and ($3::text is null or grp = $3)
    and ($4::text is null or task = $4)
    and ($6::timestamptz is null or submitted_at >= $6)
    and ($7::timestamptz is null or submitted_at < $7)
    and id between $8 and $9
  order by id desc
  limit $5)
