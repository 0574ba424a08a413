-- settle_tell.sql: one row for the changes of one transaction.
insert into turnwise_change (told, jobs, failed, memos, otherwise) values (?1, ?2, ?3, ?4, ?5)
