-- story_last_lines.sql: the last ?2 lines of a job's log, the last one first. Index: primary key.
select fence, number, at, level, text
  from turnwise_log
 where job = ?1
 order by fence desc, number desc
 limit ?2
