-- trim_attempts.sql: deletes all attempts of a job but the last ?2. Index: primary key.
delete from turnwise_attempt
 where job = ?1
   and fence <= (select fence from turnwise_attempt where job = ?1 order by fence desc limit 1 offset ?2)
