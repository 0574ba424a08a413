-- secret_note.sql: notes a secret field of a task. Index: primary key.
insert into turnwise_secret_field (task, pointer) values (?1, ?2) on conflict (task, pointer) do nothing
