-- beat_dispatcher.sql: which node dispatches, in which epoch, until when.
select holder, epoch, until from turnwise_dispatcher where id = 1
