-- schema_done.sql: notes a step as done, in the transaction of the step.
insert into turnwise_migration (version, name, applied_at)
values (?1, ?2, cast(unixepoch('subsec') * 1000000 as integer))
