-- key_delete.sql: delete unique keys that nobody can hold any more, if they are still what was seen: $1 text[] scopes,
-- $2 text[] keys, $3 uuid[] jobs. A key that was taken meanwhile has another job. Locks: those rows, in their order.
-- Index: primary key.
delete from turnwise.unique_key
 using unnest($1::text[], $2::text[], $3::uuid[]) as t (scope, key, job)
 where unique_key.scope = t.scope and unique_key.key = t.key and unique_key.job = t.job
