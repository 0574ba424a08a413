-- token_use.sql: writes down when a token was used. Index: primary key.
update turnwise_token set last_used_at = ?2 where id = ?1
