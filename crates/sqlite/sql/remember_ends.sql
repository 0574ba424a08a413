-- remember_ends.sql: a job that did not end well leaves no other trace: those who wait for it remember how. Index:
-- turnwise_dependency_awaits.
update turnwise_dependency set ended = ?2 where awaits = ?1
