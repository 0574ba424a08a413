-- prune_history.sql: delete what ended longer ago than the retention. Locks: those rows. Index: history_ended_at.
delete from turnwise.history
 where id in (
       select id from turnwise.history
        where ended_at < turnwise.now() - $1::bigint * interval '1 microsecond'
        order by ended_at
        limit $2
          for update skip locked)
