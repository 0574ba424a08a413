-- story_next_lines.sql: the next $2 lines of a job's log after line $4 of run $3. Locks: nothing. Index: primary key.
select fence, number, at, level, text
  from turnwise.log
 where job = $1 and (fence, number) > ($3, $4)
 order by fence, number
 limit $2
