-- forget_steps.sql: deletes the results of the steps of a job that is gone, or goes on with another task. Index: primary key.
delete from turnwise_step where job = ?1
