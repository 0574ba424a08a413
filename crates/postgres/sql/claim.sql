-- claim.sql: take unique keys for jobs that are about to be stored; its reply is explained at the function.
-- Binds: $1 uuid[] ids, $2 text[] scopes, $3 text[] keys, $4 boolean[] whether held until the job has ended,
-- $5 bigint[] periods in microseconds (null = none), $6 smallint[] 1 = reject duplicates.
-- Locks: keys it takes, in their order. Index: the primary keys of unique_key and job, history_pkey.
select place, holder, outcome from turnwise.claim($1::uuid[], $2::text[], $3::text[], $4::boolean[], $5::bigint[], $6::smallint[])
