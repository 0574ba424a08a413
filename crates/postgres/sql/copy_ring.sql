-- copy_ring.sql: wakes the dispatcher if it sleeps, when this transaction is committed. Locks: nothing.
select turnwise.ring()
