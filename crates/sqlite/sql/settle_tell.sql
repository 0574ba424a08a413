-- settle_tell.sql: writes one row for the changes of one transaction, for the dispatcher to read.
insert into turnwise_change (told, jobs, failed, memos, otherwise, errors) values (?1, ?2, ?3, ?4, ?5, ?6)
