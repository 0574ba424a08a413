-- beat_dispatcher.sql: who dispatches.
select holder, epoch, until from turnwise_dispatcher where id = 1
