//! How long each read of the HTTP API takes with a large database: `cargo run --release -p turnwise-server --example reads -- sqlite`
//! (or `postgres`), then how many jobs have ended, how many wait and in how many groups: `10000000 1000000 100000`.
//!
//! It makes the database by bulk statements in a folder of its own under the system's temporary one, which is removed at the end; runs a node
//! beside the server, so that jobs begin and end meanwhile; asks each route fifty times; and prints a table.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, header},
};
use tower::ServiceExt;
use turnwise::{
    Config, Ctx, GroupName, JobRequest, NodeName, Options, Outcome, QueueName, Registry, Schema, Task, TaskName,
    Turnwise,
    access::{Grant, Limits, NewAccess, Scope},
    audit::Actor,
    rusqlite::Connection,
    schedules::Recurring,
    settings::Weight,
    statistics::{Counted, Of, Row, Step, Sums},
};
use turnwise_server::Service;
use turnwise_store::{Epoch, WriteStatistics};
use turnwise_testpg::Cluster;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CALLS: usize = 50;
const DAY_MILLIS: u64 = 86_400_000;
/// Finished jobs are spread over so many days, which are kept.
const DAYS: u64 = 6;

/// How large the database is.
#[derive(Clone, Copy)]
struct Size {
    finished: u64,
    waiting: u64,
    groups: u64,
}

struct Mail;
impl Task for Mail {
    type Args = serde_json::Value;
    const NAME: &'static str = "mail";
    async fn run(&self, _: Ctx, _: serde_json::Value) -> Outcome {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Outcome::done()
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_else(|| "sqlite".to_owned());
    let mut number = |default| args.next().map_or(Ok(default), |text| text.parse::<u64>());
    let size = Size { finished: number(1_000_000)?, waiting: number(100_000)?, groups: number(10_000)? };
    let folder = tempfile::tempdir()?;
    let cluster = if kind == "postgres" { Some(Cluster::start_durable()?) } else { None };
    let url = match &cluster {
        Some(cluster) => cluster.fresh_database()?,
        None => format!("sqlite:{}", folder.path().join("jobs.db").display()),
    };
    let began = Instant::now();
    let now = u64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis())?;
    let turnwise = Turnwise::open_with(&url, Options { schema: Schema::Migrate, ..Options::default() }).await?;
    match &cluster {
        Some(cluster) => postgres(cluster, &url, size, now)?,
        None => sqlite(&folder.path().join("jobs.db"), size, now)?,
    }
    eprintln!("made in {:.0?}", began.elapsed());
    measure(turnwise, size, now).await
}

fn first_finished(now: u64) -> u64 {
    now - DAYS * DAY_MILLIS - DAY_MILLIS / 2
}

fn postgres(cluster: &Cluster, url: &str, size: Size, now: u64) -> Result<()> {
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

fn sqlite(file: &std::path::Path, size: Size, now: u64) -> Result<()> {
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

/// A caller in this process.
struct Caller {
    router: Router,
    token: Option<String>,
}

impl Caller {
    async fn ask(&self, path: &str) -> Result<(u16, serde_json::Value, Duration)> {
        let mut request = Request::get(path).header(header::HOST, "127.0.0.1:8080");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let began = Instant::now();
        let answer = self.router.clone().oneshot(request.body(Body::empty())?).await?;
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default(), began.elapsed()))
    }

    /// Asks for each of the paths in turn, and prints a line of the table.
    async fn line(&self, name: &str, paths: &[String]) -> Result<()> {
        let mut times = Vec::with_capacity(CALLS);
        for path in paths.iter().cycle().take(CALLS) {
            let (status, answer, took) = self.ask(path).await?;
            if status != 200 && times.is_empty() {
                eprintln!("{path}: {status} {answer}");
            }
            times.push(took);
        }
        let Some(&first) = times.first() else { return Err(format!("{name}: nothing to ask for").into()) };
        times.sort_unstable();
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} |",
            millis(first),
            millis(times[CALLS / 2]),
            millis(times[CALLS * 95 / 100])
        );
        Ok(())
    }
}

/// Bytes of this process's memory.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

async fn measure(turnwise: Turnwise, size: Size, now: u64) -> Result<()> {
    let mut registry = Registry::new();
    registry.register(Mail)?;
    let mut config = Config::new(NodeName::new("node")?);
    config.core_pool_size = 4;
    let node = turnwise.executor_with(config).registry(registry).build()?;
    node.start().await?;
    let service = Service::new(turnwise.clone());
    let mut caller = Caller { router: service.router(), token: None };
    let began = Instant::now();
    loop {
        let (_, overview, _) = caller.ask("/api/v1/overview").await?;
        if overview["at_least"] == false {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("the dispatcher has read the backlog after {:.1?}", began.elapsed());
    small_things(&turnwise, size).await?;
    let waiting: Vec<String> = ids(&caller, "/api/v1/jobs?state=waiting&limit=1000").await?;
    let finished: Vec<String> = ids(&caller, "/api/v1/jobs?state=success&limit=1000").await?;
    println!("| read | first | median | p95 (ms) |\n|---|---|---|---|");
    let one = |path: &str| vec![format!("/api/v1/{path}")];
    let middle = turnwise::Timestamp::from_micros(i64::try_from((now - 3 * DAY_MILLIS) * 1_000)?);
    for (name, path) in [
        ("overview", "overview".to_owned()),
        ("queues", "queues".to_owned()),
        ("a queue", "queues/queue7".to_owned()),
        ("groups", "groups?limit=1000".to_owned()),
        ("a group", format!("groups/group{}", size.groups / 2)),
        ("tasks", "tasks".to_owned()),
        ("a task", "tasks/mail".to_owned()),
        ("keys", "keys".to_owned()),
        ("nodes", "nodes".to_owned()),
        ("schedules", "schedules".to_owned()),
        ("installation", "installation".to_owned()),
        ("audit", "audit".to_owned()),
        ("jobs", "jobs".to_owned()),
        ("jobs, 1000", "jobs?limit=1000".to_owned()),
        ("jobs, state=success", "jobs?state=success".to_owned()),
        ("jobs, state=failed", "jobs?state=failed".to_owned()),
        ("jobs, state=running", "jobs?state=running".to_owned()),
        ("jobs, state=stuck", "jobs?state=stuck".to_owned()),
        ("jobs of a queue", "jobs?queue=queue7".to_owned()),
        ("jobs of a group", format!("jobs?group=group{}", size.groups / 2)),
        ("jobs of no group", "jobs?group=nobody".to_owned()),
        ("jobs of a task", "jobs?task=mail".to_owned()),
        ("jobs of a node", "jobs?node=node".to_owned()),
        ("jobs since", format!("jobs?since={middle}")),
        ("jobs until", format!("jobs?until={middle}")),
        ("jobs by unique key", "jobs?unique=nobody".to_owned()),
        ("jobs by kind of error", "jobs?fingerprint=no%20route%20to%20host%2010".to_owned()),
        ("jobs by text in arguments", "jobs?args_contain=nobody".to_owned()),
        ("tokens", "tokens".to_owned()),
        ("statistics by queue", "statistics".to_owned()),
        ("statistics by task", "statistics?by=task".to_owned()),
        ("statistics of a queue's groups", "statistics?by=group&queue=queue7".to_owned()),
        ("statistics of a group", "statistics?by=group&queue=queue7&group=group7&step=hour".to_owned()),
        ("errors", "errors".to_owned()),
    ] {
        caller.line(name, &one(&path)).await?;
    }
    let each = |ids: &[String], end: &str| -> Vec<String> {
        ids.iter().step_by(ids.len().div_ceil(CALLS).max(1)).map(|id| format!("/api/v1/jobs/{id}{end}")).collect()
    };
    caller.line("a waiting job", &each(&waiting, "")).await?;
    caller.line("a finished job", &each(&finished, "")).await?;
    caller.line("a job's log", &each(&finished, "/log")).await?;
    caller.line("a job with its gates", &each(&waiting, "?gates=true")).await?;
    caller.line("a job's graph", &each(&waiting, "/graph")).await?;
    caller.line("metrics", &["/metrics".to_owned()]).await?;
    let before = memory();
    caller.line("why", &each(&waiting, "/why")).await?;
    eprintln!("memory: {} MB before the first why, {} MB after", before / 1_000_000, memory() / 1_000_000);
    let limits = Limits { groups: Some([GroupName::new("group7")?].into()), ..Limits::default() };
    let created = turnwise.create_token(NewAccess::new("a tenant", Grant::new([Scope::Read], limits)?)?).await?;
    caller.token = Some(created.secret.reveal().to_owned());
    // The server learns of the first token within two seconds.
    while caller.ask("/api/v1/overview").await?.0 != 200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    caller.line("overview, limited to a group", &one("overview")).await?;
    caller.line("groups, limited to a group", &one("groups")).await?;
    caller.line("jobs, limited to a group", &one("jobs")).await?;
    caller.line("statistics, limited to a group", &one("statistics?by=group&queue=queue7")).await?;
    node.stop().await;
    Ok(())
}

/// What is in no table of jobs: a thousand lines of the audit log and a thousand groups that are set, a hundred schedules, and two hours of
/// statistics by the minute, for 200 groups and a task of each of twenty queues.
async fn small_things(turnwise: &Turnwise, size: Size) -> Result<()> {
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
    for minutes in 1..=120 {
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

async fn ids(caller: &Caller, path: &str) -> Result<Vec<String>> {
    let (_, page, _) = caller.ask(path).await?;
    let jobs = page["jobs"].as_array().cloned().unwrap_or_default();
    Ok(jobs.iter().filter_map(|job| job["id"].as_str().map(str::to_owned)).collect())
}
