-- leave_lead.sql: gives the lead up, if this node holds it. The epoch stays: it only grows.
update turnwise_dispatcher set holder = null where id = 1 and holder = ?1
