-- logins_spare.sql: deletes the log-ins of the token $2 that end first, so that $3 of them stay; the log-in $1 does not count, and those that
-- another transaction deletes are left to it. Locks: these rows, in the order of their hashes. Index: none, there are few.
with kept as materialized (
    select hash from turnwise.login where token = $2 and hash <> $1 order by until desc, hash desc limit $3
), spare as materialized (
    select hash from turnwise.login
     where token = $2 and hash <> $1 and hash not in (select hash from kept)
     order by hash for update skip locked
)
delete from turnwise.login using spare where login.hash = spare.hash
