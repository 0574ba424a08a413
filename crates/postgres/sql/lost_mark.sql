-- lost_mark.sql: mark nodes as lost whose lease is over and was over at $1; and the silent nodes $2, if their leases still end
-- at $3.
-- Locks: their rows; one that is locked is beating or joining right now and is not lost. Index: primary key.
update turnwise.node
   set lost = true
 where incarnation in (
       select incarnation from turnwise.node
        where not lost
          and (lease_until < least(turnwise.now(), $1::timestamptz)
               or (incarnation, lease_until) in (select * from unnest($2::uuid[], $3::timestamptz[])))
        order by incarnation
          for update skip locked)
