-- replace_args.sql: other arguments for jobs of the same task that have not begun; its reply is explained at the function.
-- Binds: $1 uuid[] ids, $2 text[] tasks, $3 text[] arguments (JSON). Locks: rows that get them, in id order. Index: primary key.
select id, task, replaced from turnwise.replace_args($1::uuid[], $2::text[], $3::text[])
