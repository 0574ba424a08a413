-- remember_ends.sql: jobs that wait for a job that did not end well record how it ended: nothing else does.
-- Index: turnwise_dependency_awaits.
update turnwise_dependency set ended = ?2 where awaits = ?1
