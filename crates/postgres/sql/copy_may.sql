-- copy_may.sql: whether jobs from id $1 on can be copied: none of them has ended (ids are in the order of time, and all finished
-- jobs have smaller ids), no group is full (memo kind 6), and none is more than a minute ahead of the time
-- ($2: the newest, in milliseconds since 1970; the statement says so then). Locks: nothing. Index: history_pkey, the memos' primary key.
select not exists (select from turnwise.memo where kind = 6)
       and not exists (select from turnwise.history where id >= $1)
       and $2::bigint - 60000 <= extract(epoch from turnwise.now()) * 1000
