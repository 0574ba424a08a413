-- settle_read_ended.sql: what a decision about a finished job is checked against. Index: primary key.
select state, fence, started_at from turnwise_history where id = ?1
