-- remember_alone.sql: one writer of memos at a time, until the transaction ends: remember.sql, as a statement of its
-- own, then sees all that others wrote. Its checks are exact for memos that are not there, too, where no row could be
-- locked. Locks: a number ("turnmemo" in ASCII) that nothing else uses. Index: none.
select pg_advisory_xact_lock(8391739299282120047)
