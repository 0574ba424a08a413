-- key_delete.sql: a unique key that nobody can hold any more. Index: primary key.
delete from turnwise_unique_key where scope = ?1 and key = ?2
