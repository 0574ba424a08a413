-- lost_mark.sql: mark nodes whose lease is over as lost.
-- Locks: their rows; one that is locked is beating or joining right now and is not lost. Index: primary key.
update turnwise.node
   set lost = true
 where incarnation in (
       select incarnation from turnwise.node
        where not lost and lease_until < turnwise.now()
        order by incarnation
          for update skip locked)
