-- asleep.sql: say whether submitters shall ring. Locks: the dispatcher's row. Index: none, it is one row.
update turnwise.dispatcher set asleep = $1 where epoch = $2 and asleep <> $1
