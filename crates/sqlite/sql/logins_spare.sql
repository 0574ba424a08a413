-- logins_spare.sql: deletes the log-ins of the token ?2 that end first, so that ?3 of them stay; the log-in ?1 does not count. Index: none,
-- there are few.
delete from turnwise_login
 where hash in (
     select hash from turnwise_login where token = ?2 and hash <> ?1 order by until desc, hash desc limit -1 offset ?3)
