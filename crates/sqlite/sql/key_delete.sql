-- key_delete.sql: deletes a unique key that no job can hold any more. Index: primary key.
delete from turnwise_unique_key where scope = ?1 and key = ?2
