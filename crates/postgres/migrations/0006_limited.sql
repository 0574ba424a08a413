-- For each of the jobs, in their order: whether a limit counts it. A node that has lost contact stops those.
alter table turnwise.assignment add column limited boolean[] not null default '{}';
