-- secrets.sql: all secret fields. Index: none, there are few.
select task, pointer from turnwise_secret_field
