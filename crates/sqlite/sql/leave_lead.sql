-- leave_lead.sql: gives dispatching up, if it is held. The epoch stays: it only grows.
update turnwise_dispatcher set holder = null where id = 1 and holder = ?1
