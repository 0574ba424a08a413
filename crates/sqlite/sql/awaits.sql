-- awaits.sql: of the jobs that job ?1 waits for, by id: those that have not ended (without a state) and those that ended
-- otherwise than with success. Index: primary key; unique id, primary key of history.
select d.awaits, case when j.id is null then coalesce(h.state, d.ended) end
  from turnwise_dependency d
  left join turnwise_job j on j.id = d.awaits
  left join turnwise_history h on h.id = d.awaits
 where d.job = ?1 and (j.id is not null or coalesce(h.state, d.ended) <> 4)
 order by d.awaits
