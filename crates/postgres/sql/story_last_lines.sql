-- story_last_lines.sql: the last $2 lines of a job's log, backwards. Locks: nothing. Index: primary key, backwards.
select fence, number, at, level, text
  from turnwise.log
 where job = $1
 order by fence desc, number desc
 limit $2
