-- trim_attempts.sql: of the attempts of the jobs $1, keep the last $2. Locks: the attempts that are deleted. Index: primary key.
delete from turnwise.attempt
 using unnest($1::uuid[]) as t (job)
 cross join lateral (
       select fence from turnwise.attempt as last
        where last.job = t.job
        order by last.fence desc
       offset $2
        limit 1
       ) as edge
 where attempt.job = t.job and attempt.fence <= edge.fence
