-- news_begin.sql: where the tail begins: the lineage and a snapshot. Locks: nothing that others wait for. Index: none.
select turnwise.begin_lineage() || '/' || pg_current_snapshot() as cursor, turnwise.now() as now
