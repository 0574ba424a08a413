-- secret_note.sql: notes secret fields of tasks that are not noted yet. Locks: their rows, in order. Index: primary key.
insert into turnwise.secret_field (task, pointer)
select task, pointer from unnest($1::text[], $2::text[]) as new (task, pointer) order by task, pointer
on conflict (task, pointer) do nothing
