-- token_revoke.sql: takes a token back, once. Index: primary key.
update turnwise_token set revoked_at = ?2 where id = ?1 and revoked_at is null
