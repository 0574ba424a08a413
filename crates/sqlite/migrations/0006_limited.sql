-- A byte for each of the jobs, in their order: whether a limit counts it. A node that has lost contact stops those.
alter table turnwise_assignment add column limited blob not null default x'';
