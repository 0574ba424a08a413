-- leave_lead.sql: give up the lead. Locks: the dispatcher's row. Index: none, it is one row.
update turnwise.dispatcher set holder = null where holder = $1
