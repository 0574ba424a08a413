-- asleep.sql: write whether the dispatcher sleeps, that is, whether submitters must ring.
-- Locks: the dispatcher's row. Index: none, it is one row.
update turnwise.dispatcher set asleep = $1 where epoch = $2 and asleep <> $1
