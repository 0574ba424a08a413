-- settle_discard.sql: settle_finish.sql where nothing is kept: the jobs are deleted and enter no history.
-- Locks: the job rows, in id order; the node's assignments. Index: primary keys.
with gone as (
    delete from turnwise.job
     using unnest($4::uuid[], $5::bigint[], $6::boolean[], $7::bigint[], $8::smallint[], $9::text[])
           as t (id, fence, saw_cancel, ran, end_state, end_fingerprint)
     where job.id between t.id and t.id and job.fence = t.fence and job.node = $1 and job.state in (1, 2)
       and (t.saw_cancel or not job.cancel_requested)
    returning job.id, job.on_failure, t.ran, t.end_state, t.end_fingerprint
), dependencies as (
    delete from turnwise.dependency using gone where dependency.job between gone.id and gone.id and gone.on_failure is not null
), remembered as (
    -- Nothing else records how they ended.
    insert into turnwise.bad_end (id, state)
    select id, end_state from gone where end_state <> 4
    on conflict (id) do update set state = excluded.state, xact = excluded.xact, until = null
), told as (
    insert into turnwise.change (told, jobs, ran, failed, fingerprints)
    select $2, array_agg(id), array_agg(ran), array_agg(case end_state when 5 then true when 4 then false end),
           case when count(end_fingerprint) > 0 then array_agg(case end_state when 5 then end_fingerprint end) end
      from gone having count(*) > 0
), done as (
    delete from turnwise.assignment where node = $1 and batch = any ($3::uuid[])
), rung as materialized (
    select turnwise.ring()
      from turnwise.dispatcher
     where epoch is distinct from $2 and exists (select from gone)
)
select array_agg(gone.id) from gone where (select count(*) from rung) >= 0
