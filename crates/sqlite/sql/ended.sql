-- ended.sql: what a decision about a finished job is checked against. Index: primary key.
select state, fence from turnwise_history where id = ?1
