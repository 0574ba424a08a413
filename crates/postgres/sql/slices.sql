-- slices.sql: the parts that history has. Locks: nothing. Index: the catalog's own.
select relation.relname::text
  from pg_catalog.pg_inherits
  join pg_catalog.pg_class as relation on relation.oid = inhrelid
 where inhparent in ('turnwise.history_success'::regclass, 'turnwise.history_failed'::regclass,
                     'turnwise.history_cancelled'::regclass)
