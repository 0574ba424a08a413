-- look.sql: which node dispatches, if not node $1, and whether that node's session exists. Locks: nothing. Index: primary keys.
select turnwise.now() as now, turnwise.lineage() as lineage,
       leader.epoch, leader.until, leader.lease, leader.host, leader.there
  from (values (true)) as always
  left join turnwise.leader() as leader on leader.holder <> $1
