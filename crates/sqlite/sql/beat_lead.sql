-- beat_lead.sql: takes or prolongs the lead; the caller has seen, in the same transaction, that it may.
update turnwise_dispatcher set holder = ?1, epoch = ?2, until = ?3 where id = 1
