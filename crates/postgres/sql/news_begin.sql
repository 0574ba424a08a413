-- news_begin.sql: where the tail begins. Locks: nothing. Index: none.
select pg_current_snapshot()::text as cursor, turnwise.now() as now
