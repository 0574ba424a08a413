-- key_take.sql: gives a unique key that its holder no longer has to another job. Index: primary key.
update turnwise_unique_key set job = ?3, until_ended = ?4, expires = ?5 where scope = ?1 and key = ?2
