-- settle_stopped.sql: jobs that node $1 was asked to stop have settled; after the statement that settles them.
-- Locks: the requests. Index: primary key.
delete from turnwise.stop_request
 using unnest($2::uuid[], $3::bigint[]) as t (job, fence)
 where node = $1 and stop_request.job between t.job and t.job and stop_request.fence = t.fence
