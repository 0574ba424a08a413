//! A large database, made by bulk statements: jobs that have ended, spread over some days, and jobs that wait.

#![allow(dead_code, reason = "each program uses its part")]

use std::{error::Error, time::Duration};

use turnwise::{
    GroupName, JobRequest, QueueName, TaskName, Turnwise,
    audit::Actor,
    rusqlite::Connection,
    schedules::Recurring,
    settings::Weight,
    statistics::{Counted, Of, Row, Step, Sums},
};
use turnwise_store::{Epoch, WriteStatistics};
use turnwise_testpg::Cluster;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) const DAY_MILLIS: u64 = 86_400_000;
/// Finished jobs are spread over so many days, which are kept.
const DAYS: u64 = 6;

/// How large the database is.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) finished: u64,
    pub(crate) waiting: u64,
    pub(crate) groups: u64,
}

fn first_finished(now: u64) -> u64 {
    now - DAYS * DAY_MILLIS - DAY_MILLIS / 2
}

pub(crate) fn postgres(cluster: &Cluster, url: &str, size: Size, now: u64) -> Result<()> {
    let Size { finished, waiting, groups } = size;
    let sql = |text: String| cluster.psql(url, &text).map(drop);
    // A slice for each day, as a dispatcher makes them.
    for state in ["success", "failed", "cancelled"] {
        sql(format!(
            "do $$ declare a timestamp; b timestamp; begin for day in 1..{} loop
                a := date_trunc('day', now() at time zone 'utc') - day * interval '1 day';
                b := a + interval '1 day';
                execute format('create table turnwise.history_{state}_%s_%s partition of turnwise.history_{state} for values from (%L) to (%L)',
                    to_char(a, 'YYYYMMDDHH24'), to_char(b, 'YYYYMMDDHH24'), a at time zone 'utc', b at time zone 'utc');
             end loop; end $$",
            DAYS + 1
        ))?;
    }
    let id = |millis: &str| {
        format!(
            "(lpad(to_hex(({millis})::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid"
        )
    };
    let first = first_finished(now);
    let step = format!("{first} + n * {} / {finished}", DAYS * DAY_MILLIS);
    let at = format!("to_timestamp(({step}) / 1000.0)");
    for (from, to) in chunks(finished) {
        sql(format!(
            "insert into turnwise.history (id, seq, task, queue, grp, priority, args, state, attempt, retries, crashes, fence,
                    cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at, ended_at,
                    fingerprint, noted)
             select {id}, n, 'mail', 'queue' || (n % 20), 'group' || (n % {groups}), 5,
                    json_build_object('to', n, 'text', repeat('x', 60)), case when n % 100 = 0 then 6 when n % 10 = 0 then 5 else 4 end, 1,
                    0, 0, 1, false, 'node', 'null', case when n % 10 = 0 and n % 100 > 0 then 'no route to host ' || (n % 50) end, {at}, {at}, {at}, {at},
                    {at}, {at}, case when n % 10 = 0 and n % 100 > 0 then 'no route to host ' || (n % 50) end, false
               from generate_series({from}::bigint, {to} - 1) as n",
            id = id(&step)
        ))?;
    }
    let step = format!("{now} - 3600000 + n * 3000000 / {waiting}");
    for (from, to) in chunks(waiting) {
        sql(format!(
            "insert into turnwise.job (id, task, queue, grp, priority, args, submitted_at, due_at)
             select {id}, 'mail', 'queue' || (n % 20), 'group' || (n % {groups}), 5, json_build_object('to', n, 'text', repeat('x', 60)),
                    to_timestamp(({step}) / 1000.0), to_timestamp(({step}) / 1000.0)
               from generate_series({from}::bigint, {to} - 1) as n",
            id = id(&step)
        ))?;
    }
    sql("vacuum analyze".to_owned())?;
    Ok(())
}

pub(crate) fn sqlite(file: &std::path::Path, size: Size, now: u64) -> Result<()> {
    let Size { finished, waiting, groups } = size;
    let conn = Connection::open(file)?;
    conn.execute_batch("pragma journal_mode = wal; pragma synchronous = off; pragma cache_size = -200000")?;
    let first = first_finished(now);
    let id = |millis: &str| format!("unhex(printf('%012x7%03x8%015x', {millis}, n % 4096, n))");
    let step = format!("{first} + n * {} / {finished}", DAYS * DAY_MILLIS);
    for (from, to) in chunks(finished) {
        conn.execute_batch(&format!(
            "with recursive numbers (n) as (select {from} union all select n + 1 from numbers where n + 1 < {to})
             insert into turnwise_history (id, seq, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                    cancel_requested, node_name, result, error, submitted_at, due_at, assigned_at, started_at, finished_at, ended_at, fingerprint)
             select {id}, n, 'mail', '{{\"to\":' || n || ',\"text\":\"{text}\"}}', 'queue' || (n % 20), 'group' || (n % {groups}), 5, 'task',
                    case when n % 100 = 0 then 6 when n % 10 = 0 then 5 else 4 end, 1, 0, 0, 1, 0, 'node', 'null',
                    case when n % 10 = 0 and n % 100 > 0 then 'no route to host ' || (n % 50) end, ({step}) * 1000, ({step}) * 1000, ({step}) * 1000,
                    ({step}) * 1000, ({step}) * 1000, ({step}) * 1000,
                    case when n % 10 = 0 and n % 100 > 0 then 'no route to host ' || (n % 50) end
               from numbers",
            id = id(&step),
            text = "x".repeat(60)
        ))?;
    }
    let step = format!("{now} - 3600000 + n * 3000000 / {waiting}");
    for (from, to) in chunks(waiting) {
        conn.execute_batch(&format!(
            "with recursive numbers (n) as (select {from} union all select n + 1 from numbers where n + 1 < {to})
             insert into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence, cancel_requested,
                    submitted_at, due_at)
             select {id}, 'mail', '{{\"to\":' || n || ',\"text\":\"{text}\"}}', 'queue' || (n % 20), 'group' || (n % {groups}), 5, 'task', 0, 0, 0,
                    0, 0, 0, ({step}) * 1000, ({step}) * 1000
               from numbers",
            id = id(&step),
            text = "x".repeat(60)
        ))?;
    }
    conn.execute_batch("pragma wal_checkpoint(truncate)")?;
    Ok(())
}

/// A transaction each.
fn chunks(all: u64) -> impl Iterator<Item = (u64, u64)> {
    const CHUNK: u64 = 500_000;
    (0..all.div_ceil(CHUNK)).map(move |at| (at * CHUNK, ((at + 1) * CHUNK).min(all)))
}

/// What is in no table of jobs: a thousand lines of the audit log and a thousand groups that are set, a hundred schedules, and statistics of the
/// last minutes, for 200 groups and a task of each of twenty queues.
pub(crate) async fn small_things(turnwise: &Turnwise, size: Size, minutes: u64) -> Result<()> {
    let person = turnwise.acting_as(Actor::named("reads")?);
    for number in 0..1_000 {
        person
            .set_group(format!("group{}", number * size.groups / 1_000), |group| {
                group.weight = Weight::try_from(2.0).expect("it is in range")
            })
            .await?;
    }
    for number in 0..100 {
        let job = JobRequest::new("mail", &serde_json::json!({}));
        let recurring = Recurring::every(&format!("{}s", 86_400 + number), job);
        person.set_schedule(format!("schedule{number}"), recurring).await?;
    }
    let operators = turnwise.operators()?;
    let sums = |count: u64| {
        let mut sums = Sums::of_share(count * 50_000, count * 60_000);
        sums.tally(Counted::Started, count, count * 500_000);
        sums.put(Counted::Started, 20, count);
        sums.tally(Counted::Success, count, count * 50_000);
        sums.put(Counted::Success, 12, count);
        sums
    };
    // The node writes as well, in a term of its own that this one ends.
    let term = operators.begin_statistics(Epoch(i64::MAX)).await?.term;
    let now = Step::Minute.begin(turnwise.now().await?);
    for minutes in 1..=minutes {
        let at = now.minus(Duration::from_secs(60 * minutes));
        for queue in 0..20 {
            let queue = QueueName::new(format!("queue{queue}"))?;
            let groups = (0..200).map(|group| GroupName::new(format!("group{group}")).map(Of::Group));
            let mut rows: Vec<Row> = Vec::with_capacity(202);
            for of in groups.chain([Ok(Of::OtherGroups), TaskName::new("mail").map(Of::Task)]) {
                rows.push(Row { queue: queue.clone(), of: of?, sums: sums(minutes) });
            }
            let totals =
                vec![Row { queue: queue.clone(), of: Of::Task(TaskName::new("mail")?), sums: sums(1_000_000) }];
            let first = queue.as_str() == "queue0";
            operators.write_statistics(WriteStatistics { term, at, first, rows, errors: Vec::new(), totals }).await?;
        }
    }
    Ok(())
}
