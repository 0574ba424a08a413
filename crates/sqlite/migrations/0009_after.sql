-- 0009_after.sql: jobs that wait for jobs. The columns are explained in schema.sql.

alter table turnwise_job add column on_failure text;

create table turnwise_dependency (
    job        blob not null,
    awaits     blob not null,
    on_failure text not null,
    ended      integer,
    primary key (job, awaits)
) strict, without rowid;

create index turnwise_dependency_awaits on turnwise_dependency (awaits, job);

alter table turnwise_change add column otherwise blob not null default x'';
