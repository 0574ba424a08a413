-- leave_lead.sql: give up dispatching. Locks: the dispatcher's row. Index: none, it is one row.
update turnwise.dispatcher set holder = null where holder = $1
