-- token_any.sql: whether any token was ever created: one that is deleted leaves another one behind. Index: primary key.
select exists (select 1 from turnwise_token)
