-- 0039_job_group.sql: the index of jobs by group is none by id. It is explained in schema.sql.
drop index turnwise.job_group;
create index job_group on turnwise.job (grp collate "C", uuid_send(id));
