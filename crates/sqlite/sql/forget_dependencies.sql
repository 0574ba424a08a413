-- forget_dependencies.sql: deletes the record of which jobs a job that is gone waited for. Index: primary key.
delete from turnwise_dependency where job = ?1
