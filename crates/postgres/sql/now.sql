-- now.sql: what time it is. Locks: nothing. Index: none.
select turnwise.now()
