-- closing_hold.sql: hold job $1 until a task's transaction commits, a moment later, together with its end; refuse if it
-- is not in the hands of node $3 at fence $2 any more, or has a cancel request and $4 is false (it was not seen). The guards are
-- those of settle_finish.sql. The error rolls the transaction back, although its commit has already been sent.
-- Locks: the job row. Index: primary key.
with held as materialized (
    select from turnwise.job
     where id = $1 and fence = $2 and node = $3 and state in (1, 2) and ($4::boolean or not cancel_requested)
       for update
)
select turnwise.refuse('the job is in other hands') from (values (true)) as always where not exists (select from held)
