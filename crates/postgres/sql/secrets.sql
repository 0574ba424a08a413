-- secrets.sql: all secret fields. Locks: nothing. Index: none, there are few.
select task, pointer from turnwise.secret_field
