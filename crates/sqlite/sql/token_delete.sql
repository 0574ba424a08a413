-- token_delete.sql: deletes a token. Index: primary key.
delete from turnwise_token where id = ?1
