-- join_replace.sql: mark the replaced node lost. Locks: its row. Index: primary key.
update turnwise.node set lost = true where incarnation = $1
