-- once.sql: what is known of a key. Locks: nothing. Index: primary key.
select body, answers, at, turnwise.now() from turnwise.once where caller = $1 and key = $2
