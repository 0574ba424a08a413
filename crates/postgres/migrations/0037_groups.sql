-- 0037_groups.sql: jobs by their group, newest first. Names go by their bytes: a comparison costs less than one by the rules of a language,
-- and an index lasts when those rules change. Both columns never change, so that updates of a job stay HOT.
create index job_group on turnwise.job (grp collate "C", id);

create index history_group on turnwise.history (grp collate "C", id);
