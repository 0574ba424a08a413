-- copy_ring.sql: wakes the dispatcher if it sleeps, when this transaction is committed. Locks: nothing.
select pg_notify('turnwise', 'news') from turnwise.dispatcher where asleep
