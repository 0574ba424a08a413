-- trim_log.sql: deletes all lines of a job but the last ?2. Index: primary key.
delete from turnwise_log
 where job = ?1
   and (fence, number) <= (select fence, number
                             from turnwise_log
                            where job = ?1
                            order by fence desc, number desc
                            limit 1 offset ?2)
