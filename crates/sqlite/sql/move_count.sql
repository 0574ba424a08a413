-- move_count.sql: jobs are counted in this row; SQLite makes it with the first job.
insert into sqlite_sequence (name, seq)
select 'turnwise_job', 0 where not exists (select 1 from sqlite_sequence where name = 'turnwise_job')
