-- key_delete.sql: delete unique keys that no job can hold any more, if they are still what was seen: $1 text[] scopes,
-- $2 text[] keys, $3 uuid[] jobs. A key that was taken meanwhile has another job. A key that an open transaction is taking is
-- left alone: the dispatcher does not wait for other transactions. Locks: those rows. Index: primary key.
delete from turnwise.unique_key
 where ctid = any (array(
       select unique_key.ctid
         from unnest($1::text[], $2::text[], $3::uuid[]) as t (scope, key, job)
         join turnwise.unique_key on unique_key.scope = t.scope and unique_key.key = t.key and unique_key.job = t.job
          for update of unique_key skip locked))
