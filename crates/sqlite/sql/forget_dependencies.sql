-- forget_dependencies.sql: whom a job waited for that is gone. Index: primary key.
delete from turnwise_dependency where job = ?1
