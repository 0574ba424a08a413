-- How long a finished job is kept depends on how it ended.
drop index turnwise_history_ended;
create index turnwise_history_ended on turnwise_history (state, ended_at);
