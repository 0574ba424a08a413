-- control_keys.sql: which jobs have taken keys of one scope. Index: primary key, for the scope; all its keys are read.
select job, until_ended, expires from turnwise_unique_key where scope = ?1
