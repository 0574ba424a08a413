-- 0026_groups.sql: jobs by their group, newest first; finished ones by their state, too.
create index turnwise_job_group on turnwise_job (grp, id);

create index turnwise_history_group on turnwise_history (grp, state, id);
