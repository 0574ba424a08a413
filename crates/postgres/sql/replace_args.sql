-- replace_args.sql: other arguments for jobs that have not begun; the reply names those that got them.
-- Binds: $1 uuid[] ids, each once, $2 text[] arguments (JSON). Locks: those rows, in id order. Index: primary key.
select replaced.id from turnwise.replace_args($1::uuid[], $2::text[]) as replaced (id)
