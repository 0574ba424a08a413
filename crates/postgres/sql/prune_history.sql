-- prune_history.sql: delete jobs of a part of history that ended before $1 and of which nothing is told, at most $2.
-- (The name of the table is that of one part; the others' are put in its place.) Locks: those rows. Index: the rest's own,
-- by its end; in a slice history_id.
delete from turnwise.history_success_rest
 where ctid = any (array(
       select ctid from turnwise.history_success_rest
        where ended_at < $1 and not noted
        limit $2
          for update skip locked))
