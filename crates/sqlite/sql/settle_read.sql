-- settle_read.sql: what a decision about an unfinished job is checked against. Index: unique id.
select seq, state, fence, node, cancel_requested, started_at, on_failure is not null from turnwise_job where id = ?1
