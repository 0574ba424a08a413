-- once.sql: what is known of a key. Index: primary key.
select body, answers, at from turnwise_once where caller = ?1 and key = ?2
