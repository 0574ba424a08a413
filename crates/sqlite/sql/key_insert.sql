-- key_insert.sql: gives a unique key that no job has to a job. Index: primary key.
insert into turnwise_unique_key (scope, key, job, until_ended, expires)
values (?1, ?2, ?3, ?4, ?5)
    on conflict (scope, key) do nothing
