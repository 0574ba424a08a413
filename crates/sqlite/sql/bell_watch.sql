-- bell_watch.sql: what a change by another process may have moved: jobs, changes, assignments and requests to stop,
-- which nodes there are and their slots, whether no node dispatches, and until when totals are asked for.
select coalesce((select seq from sqlite_sequence where name = 'turnwise_job'), 0),
       coalesce((select seq from sqlite_sequence where name = 'turnwise_change'), 0),
       coalesce((select sum(seq) from sqlite_sequence where name in ('turnwise_assignment', 'turnwise_stop_request')), 0),
       (select count(*) from turnwise_node),
       (select coalesce(max(joined_at), 0) from turnwise_node),
       (select coalesce(sum(slots), 0) from turnwise_node),
       exists (select 1 from turnwise_dispatcher where holder is null),
       (select asked_until from turnwise_totals)
