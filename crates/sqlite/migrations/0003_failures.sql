-- 0003_failures.sql: which jobs of a change have failed. The columns are explained in schema.sql.

alter table turnwise_change add column failed blob not null default x'';
