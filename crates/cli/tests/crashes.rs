//! A fleet under load while its database crashes: backends are killed and ended, the server is stopped and started, beside
//! applications that burn transaction numbers and hold rows. Afterwards every acknowledged job has ended, once, and the
//! history checker reads the record.
//!
//! `TURNWISE_CRASH_SECONDS` sets for how long rounds are played, with a new database and a new seed each: 3600 for an hour
//! by hand. A failed round prints its seed; `TURNWISE_CRASH_SEED` plays that one round again. A seed stands for what is
//! done to the database and in which order. The timing depends on the machine: not every failure comes back at once.

mod support;

use std::{
    io::Write,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::json;
use support::{Harness, Node, PATIENCE, until};
use tokio_postgres::{Client, NoTls};
use turnwise::{JobRequest, Turnwise};
use turnwise_testpg::Cluster;

/// Rounds without `TURNWISE_CRASH_SECONDS`.
const USUAL: Duration = Duration::from_secs(30);
/// Blows to the database in one round.
const BLOWS: u32 = 8;
/// With `synchronous_commit = off`, what was committed so long before a crash may be gone: three times PostgreSQL's
/// `wal_writer_delay` according to its manual, and as much again.
const TAKEN_BACK: Duration = Duration::from_millis(1_200);

#[test]
fn a_fleet_goes_on_whatever_befalls_its_database() {
    play("synchronous_commit = on", true);
}

#[test]
fn a_fleet_goes_on_although_its_database_loses_the_last_commits() {
    play("synchronous_commit = off", false);
}

fn play(story: &str, durable: bool) {
    let seconds = std::env::var("TURNWISE_CRASH_SECONDS").ok().map(|seconds| seconds.parse().expect("seconds"));
    let until = Instant::now() + seconds.map_or(USUAL, Duration::from_secs);
    let fixed: Option<u64> = std::env::var("TURNWISE_CRASH_SEED").ok().map(|seed| seed.parse().expect("a seed"));
    let (mut rounds, mut total) = (0, Tally::default());
    while rounds == 0 || (fixed.is_none() && Instant::now() < until) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let seed = fixed.unwrap_or_else(|| u64::from(now.subsec_nanos()) ^ now.as_secs() << 20);
        say(&format!("{story}: TURNWISE_CRASH_SEED={seed}"));
        total.add(&round(seed, durable, story));
        rounds += 1;
    }
    say(&format!("{story}: {rounds} rounds, {total:?}"));
}

/// Counts of one round, or of all rounds.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: usize,
    success: usize,
    poisoned: usize,
    /// Acknowledged, and taken back by a crash without `synchronous_commit`.
    gone: usize,
    ran_twice: usize,
    stops: usize,
    restarts: usize,
    killed_backends: usize,
    ended_backends: usize,
    burnt_numbers: usize,
    held_rows: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.success += other.success;
        self.poisoned += other.poisoned;
        self.gone += other.gone;
        self.ran_twice += other.ran_twice;
        self.stops += other.stops;
        self.restarts += other.restarts;
        self.killed_backends += other.killed_backends;
        self.ended_backends += other.ended_backends;
        self.burnt_numbers += other.burnt_numbers;
        self.held_rows += other.held_rows;
    }
}

fn round(seed: u64, durable: bool, story: &str) -> Tally {
    let cluster = Cluster::start().expect("a cluster of its own");
    let mut harness = Harness::on_postgres(&cluster);
    if !durable {
        let name = harness.database().rsplit('/').next().expect("a name").to_owned();
        let sql = format!("alter database {name} set synchronous_commit = off");
        cluster.psql(&cluster.url(), &sql).expect("no wait for the log");
    }
    let flags = ["--slots", "8", "--lease", "3s"];
    let nodes: Vec<Node> = ["one", "two", "three"].iter().map(|name| harness.serve(name, &flags)).collect();
    let load = Load::start(harness.database());
    let mut tally = Tally::default();
    let mut chance = Chance(seed);
    let mut crashes = Vec::new();
    for _ in 0..BLOWS {
        // Under load: this many more submits are acknowledged first.
        let more = load.acknowledged() + 20 + chance.below(150);
        until("submits", || (load.acknowledged() >= more).then_some(()));
        blow(&cluster, harness.database(), &mut chance, &mut crashes, &mut tally);
    }
    let more = load.acknowledged() + 50;
    until("submits after the last crash", || (load.acknowledged() >= more).then_some(()));
    let done = load.stop();
    (tally.burnt_numbers, tally.held_rows) = (done.burnt, done.held);
    harness.note(json!({"event": "outage"}));
    for (job, _) in &done.submitted {
        harness.note(json!({"event": "submit", "job": job}));
    }
    if !durable {
        take_back(&mut harness, &done.submitted, &nodes, &crashes);
    }
    all_ended(&harness, seed, &nodes);
    nodes.into_iter().for_each(Node::stop);
    let report = harness.report();
    support::tell(story, &report.counts);
    assert_eq!(report.violations, [], "TURNWISE_CRASH_SEED={seed}: {report}");
    let poisoned = harness.jobs(&["--state", "failed"]);
    let poison = |job: &serde_json::Value| job["error"].as_str().is_some_and(|error| error.starts_with("poison"));
    assert!(poisoned.iter().all(poison), "TURNWISE_CRASH_SEED={seed}: {poisoned:?}");
    tally.acknowledged = report.counts.submitted;
    (tally.success, tally.ran_twice, tally.poisoned) = (report.counts.success, report.counts.ran_twice, poisoned.len());
    let listed = harness.jobs(&[]);
    let listed: std::collections::HashSet<&str> = listed.iter().filter_map(|job| job["id"].as_str()).collect();
    tally.gone = done.submitted.iter().filter(|(job, _)| !listed.contains(job.as_str())).count();
    tally
}

/// Waits until all jobs have ended; on failure, names those that have not.
fn all_ended(harness: &Harness, seed: u64, nodes: &[Node]) {
    let unfinished = ["waiting", "scheduled", "running", "stuck"].map(|state| ["--state", state]).concat();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = harness.jobs(&unfinished);
        if left.is_empty() {
            return;
        }
        let line = |job: &serde_json::Value| format!("{} is {} on {}", job["id"], job["state"], job["node"]);
        let some: Vec<String> = left.iter().take(20).map(line).collect();
        let records: String =
            nodes.iter().map(|node| node.records_of(left[0]["id"].as_str().expect("an id"))).collect();
        let stands = format!("{} jobs have not ended:\n{}\n{records}", left.len(), some.join("\n"));
        assert!(Instant::now() < deadline, "TURNWISE_CRASH_SEED={seed}: {stands}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// One fault of the database.
fn blow(cluster: &Cluster, url: &str, chance: &mut Chance, crashes: &mut Vec<SystemTime>, tally: &mut Tally) {
    let backends = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                       and backend_type = 'client backend' order by pid";
    match chance.below(6) {
        0 => {
            crashes.push(SystemTime::now());
            cluster.stop_immediate().expect("stop");
            cluster.start_again().expect("start");
            tally.stops += 1;
        }
        1 => {
            cluster.stop_fast().expect("stop");
            cluster.start_again().expect("start");
            tally.restarts += 1;
        }
        2 | 3 => {
            let backends = cluster.psql(url, "select 1").and_then(|_| cluster.psql(url, backends)).expect("backends");
            let backends: Vec<&str> = backends.lines().collect();
            let victim = backends[chance.below(backends.len())];
            crashes.push(SystemTime::now());
            // One that has just ended by itself is not an error.
            let _ = Command::new("kill").args(["-KILL", victim]).status();
            until("the server after its recovery", || cluster.psql(url, "select 1").ok());
            tally.killed_backends += 1;
        }
        _ => {
            let some = 1 + chance.below(100);
            let sql =
                format!("select count(pg_terminate_backend(pid)) from ({backends}) as one where pid % 100 < {some}");
            let ended = cluster.psql(url, &sql).expect("end some");
            tally.ended_backends += ended.parse::<usize>().expect("a number");
        }
    }
}

/// Without `synchronous_commit`, a crash may take back what was committed a moment before. Notes in the record for which jobs
/// this is possible: those about which anything was written at that time.
fn take_back(harness: &mut Harness, submitted: &[(String, SystemTime)], nodes: &[Node], crashes: &[SystemTime]) {
    let lost = |at: SystemTime| crashes.iter().any(|crash| *crash <= at + TAKEN_BACK && at <= *crash + TAKEN_BACK);
    let mut jobs: Vec<String> = submitted.iter().filter(|(_, at)| lost(*at)).map(|(job, _)| job.clone()).collect();
    for node in nodes {
        jobs.extend(node.jobs_at().into_iter().filter(|(_, at)| lost(*at)).map(|(job, _)| job));
    }
    jobs.sort();
    jobs.dedup();
    for job in jobs {
        harness.note(json!({"event": "taken_back", "job": job, "gone": true}));
    }
}

/// Submitters and other applications, on threads of their own.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    submitted: Arc<Mutex<Vec<(String, SystemTime)>>>,
    burnt: Arc<AtomicUsize>,
    held: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
}

/// What the load has done.
struct Done {
    submitted: Vec<(String, SystemTime)>,
    burnt: usize,
    held: usize,
}

impl Load {
    fn start(url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (acknowledged, burnt, held) = (Arc::default(), Arc::default(), Arc::default());
        let submitted = Arc::new(Mutex::new(Vec::new()));
        let all = (Arc::clone(&stop), Arc::clone(&acknowledged), Arc::clone(&submitted), Arc::clone(&burnt));
        let (url, rows) = (url.to_owned(), Arc::clone(&held));
        let thread = thread::spawn(move || {
            let (stop, acknowledged, submitted, burnt) = all;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let turnwise = Turnwise::open(&url).await.expect("open");
                tokio::join!(
                    submit(&turnwise, 1, &stop, &acknowledged, &submitted),
                    submit(&turnwise, 2, &stop, &acknowledged, &submitted),
                    submit(&turnwise, 250, &stop, &acknowledged, &submitted),
                    again_and_again(
                        &url,
                        &stop,
                        &burnt,
                        "begin; select pg_current_xact_id(); rollback",
                        Duration::from_millis(1)
                    ),
                    again_and_again(&url, &stop, &rows, HOLD, Duration::from_millis(5)),
                );
            });
        });
        Self { stop, acknowledged, submitted, burnt, held, thread }
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn stop(self) -> Done {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the load does not panic");
        let submitted = std::mem::take(&mut *self.submitted.lock().expect("no panic"));
        Done { submitted, burnt: self.burnt.load(Ordering::Relaxed), held: self.held.load(Ordering::Relaxed) }
    }
}

/// An application locks a few jobs, does something else, and goes.
const HOLD: &str = "begin; select from turnwise.job limit 3 for update skip locked; select pg_sleep(0.05); commit";

/// Submits jobs, `size` at a time, and notes what was acknowledged.
async fn submit(
    turnwise: &Turnwise,
    size: usize,
    stop: &AtomicBool,
    acknowledged: &AtomicUsize,
    submitted: &Mutex<Vec<(String, SystemTime)>>,
) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let job = |at: usize| {
            let args = json!({"ms": (n + at) % 20});
            JobRequest::new("sleep", &args).group(format!("g{}", (n + at) % 7))
        };
        // What was not acknowledged may be there or not.
        if let Ok(ids) = turnwise.submit_all((0..size).map(job)).await {
            let now = SystemTime::now();
            submitted.lock().expect("no panic").extend(ids.iter().map(|id| (id.to_string(), now)));
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        // So that the nodes keep up: one job takes them about a millisecond.
        tokio::time::sleep(Duration::from_millis(4 * u64::try_from(size).expect("few"))).await;
    }
}

/// Does the same as long as the load goes on, over a new connection if one is lost.
async fn again_and_again(url: &str, stop: &AtomicBool, times: &AtomicUsize, sql: &str, pause: Duration) {
    let mut client: Option<Client> = None;
    while !stop.load(Ordering::Relaxed) {
        if client.as_ref().is_none_or(Client::is_closed) {
            client = match tokio_postgres::connect(url, NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    Some(client)
                }
                Err(_) => None,
            };
        }
        if let Some(client) = &client
            && client.batch_execute(sql).await.is_ok()
        {
            times.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(pause).await;
    }
}

/// Chance from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ z >> 31) % limit.max(1) as u64).expect("below a usize")
    }
}

/// Past the capture of the test runner.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
