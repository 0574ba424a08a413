-- replace_args.sql: writes other arguments for a job that has not begun. Index: unique id of the job.
update turnwise_job set args = ?2 where id = ?1
