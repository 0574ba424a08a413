//! How long each read of the HTTP API takes with a large database: `cargo run --release -p turnwise-server --example reads -- sqlite`
//! (or `postgres`), then how many jobs have ended, how many wait and in how many groups: `10000000 1000000 100000`.
//!
//! It makes the database by bulk statements in a folder of its own under the system's temporary one, which is removed at the end; runs a node
//! beside the server, so that jobs begin and end meanwhile; asks each route and page fifty times; and prints a table. It fails if one takes longer
//! than people should wait, 95 times of 100.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

#[path = "../tests/support/large.rs"]
mod large;

use std::time::{Duration, Instant};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, header},
};
use tower::ServiceExt;
use turnwise::{
    Config, Ctx, GroupName, NodeName, Options, Outcome, Registry, Schema, Task, Turnwise,
    access::{Grant, Limits, NewAccess, Scope},
};
use turnwise_server::{Service, Verb, pages};
use turnwise_testpg::Cluster;

use large::{DAY_MILLIS, Result, Size};

const CALLS: usize = 50;
/// The p95 of a read, at most; of `why` once the view of the backlog is there.
const READ: Duration = Duration::from_millis(200);
/// The p95 of a page.
const PAGE: Duration = Duration::from_millis(300);
/// What looks at the whole backlog, or builds that view.
const BACKLOG: Duration = Duration::from_secs(10);

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
        Some(cluster) => large::postgres(cluster, &url, size, now)?,
        None => large::sqlite(&folder.path().join("jobs.db"), size, now)?,
    }
    eprintln!("made in {:.0?}", began.elapsed());
    let slow = measure(turnwise, size, now).await?;
    if slow.is_empty() { Ok(()) } else { Err(format!("too slow, or not answered:\n{}", slow.join("\n")).into()) }
}

/// A caller in this process.
struct Caller {
    router: Router,
    token: Option<String>,
    /// What took too long.
    slow: Vec<String>,
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

    async fn line(&mut self, name: &str, paths: &[String]) -> Result<()> {
        self.within(READ, name, paths).await
    }

    /// Asks for each of the paths in turn, and prints a line of the table.
    async fn within(&mut self, most: Duration, name: &str, paths: &[String]) -> Result<()> {
        let mut times = Vec::with_capacity(CALLS);
        for path in paths.iter().cycle().take(CALLS) {
            let (status, answer, took) = self.ask(path).await?;
            // A page may lead to another one.
            if !matches!(status, 200 | 303) {
                self.slow.push(format!("{path}: {status} {answer}"));
            }
            times.push(took);
        }
        let Some(&first) = times.first() else { return Err(format!("{name}: nothing to ask for").into()) };
        if first > BACKLOG {
            self.slow.push(format!("{name}: the first took {first:.1?}, more than {BACKLOG:.0?}"));
        }
        times.sort_unstable();
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} |",
            millis(first),
            millis(times[CALLS / 2]),
            millis(times[CALLS * 95 / 100])
        );
        let p95 = times[CALLS * 95 / 100];
        if p95 > most {
            self.slow.push(format!("{name}: p95 {p95:.0?}, more than {most:.0?}"));
        }
        Ok(())
    }
}

/// Bytes of this process's memory.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or_default() * 1024
}

async fn measure(turnwise: Turnwise, size: Size, now: u64) -> Result<Vec<String>> {
    let mut registry = Registry::new();
    registry.register(Mail)?;
    let mut config = Config::new(NodeName::new("node")?);
    config.core_pool_size = 4;
    let node = turnwise.executor_with(config).registry(registry).build()?;
    node.start().await?;
    let service = Service::new(turnwise.clone());
    let mut caller = Caller { router: service.router(), token: None, slow: Vec::new() };
    let began = Instant::now();
    loop {
        let (_, overview, _) = caller.ask("/api/v1/overview").await?;
        if overview["at_least"] == false {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("the dispatcher has read the backlog after {:.1?}", began.elapsed());
    large::small_things(&turnwise, size, 120).await?;
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
    for page in pages().iter().filter(|page| matches!(page.verb, Verb::Get)) {
        let name = match page.path.split('/').nth(1).unwrap_or_default() {
            "jobs" => waiting.first().map_or("", String::as_str),
            "groups" => "group7",
            "queues" => "queue7",
            "tasks" => "mail",
            "schedules" => "schedule7",
            "nodes" => "node",
            // What is no page for people, or is there once something was done.
            "assets" | "decide" if page.path.contains('{') => continue,
            _ => "",
        };
        let path = page.path.replace("{id}", name).replace("{name}", name);
        let path = format!("{path}?weight=2&do=cancel&filter=group:group7&name=group7");
        // A part that comes after its page.
        let most = match page.path {
            "/jobs/{id}/why" => READ,
            _ if page.looks_at_backlog() => BACKLOG,
            _ => PAGE,
        };
        caller.within(most, &format!("page {}", page.path), &[path]).await?;
    }
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
    Ok(caller.slow)
}

async fn ids(caller: &Caller, path: &str) -> Result<Vec<String>> {
    let (_, page, _) = caller.ask(path).await?;
    let jobs = page["jobs"].as_array().cloned().unwrap_or_default();
    Ok(jobs.iter().filter_map(|job| job["id"].as_str().map(str::to_owned)).collect())
}
