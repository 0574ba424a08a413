-- leave_lead.sql: give up dispatching. Locks: the dispatcher's row. Index: primary key.
update turnwise.dispatcher set holder = null where holder = $1
