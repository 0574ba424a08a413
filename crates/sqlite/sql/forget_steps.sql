-- forget_steps.sql: what the steps of a job came to that is gone, or goes on with another task. Index: primary key.
delete from turnwise_step where job = ?1
