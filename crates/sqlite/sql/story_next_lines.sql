-- story_next_lines.sql: the first lines of a job's log after a given line. Index: primary key.
select fence, number, at, level, text
  from turnwise_log
 where job = ?1 and (fence, number) > (?3, ?4)
 order by fence, number
 limit ?2
