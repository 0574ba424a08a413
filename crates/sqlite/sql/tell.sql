-- tell.sql: one row for the changes of one transaction.
insert into turnwise_change (told, jobs, memos) values (?1, ?2, ?3)
