//! What a decision costs: `cargo run --release -p turnwise-core --example decide`.
//!
//! For 10 to 1,000,000 groups with work: nanoseconds from "a job has settled" to "the next one is picked", one job at a
//! time; the longest time that taking in one job took; and memory (with statistics, unless WITHOUT_STATISTICS is set),
//! as the kernel counts it. Each row is measured in a process of its own: otherwise memory that one row freed would be
//! used again by the next.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)] // it is a program

use std::{
    collections::BTreeSet,
    process::Command,
    time::{Duration, Instant},
};

use turnwise_core::{
    Fence, GroupName, Incarnation, JobHead, JobId, JobState, Node, NodeName, Priority, QueueName, Serves, TaskName,
    Timestamp,
    node::Host,
    scheduler::{Input, Output, Reply, Scheduler, Settled},
};
use uuid::Uuid;

/// Groups and jobs.
const ROWS: [(u64, u64); 7] = [
    (10, 1_000_000),
    (1_000, 1_000_000),
    (100_000, 1_000_000),
    (1_000_000, 2_000_000),
    (1_000_000, 5_000_000),
    (1_000, 10_000_000),
    (1_000_000, 10_000_000),
];
/// Bytes that a waiting job may take; what is beyond that is counted for its group.
const JOB_BYTES: f64 = 46.0;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    if let [groups, jobs] = numbers[..] {
        return row(groups, jobs);
    }
    println!(
        "                                 ns/decision,   bytes    beyond {JOB_BYTES} a job,     MiB    MiB   longest"
    );
    println!("   groups       jobs   median of five (most)    /job     bytes/group    at rest  at most   insert");
    let me = std::env::current_exe().expect("a program knows where it is");
    for (groups, jobs) in ROWS {
        let row = Command::new(&me).args([groups.to_string(), jobs.to_string()]).status();
        assert!(row.is_ok_and(|status| status.success()), "{groups} groups, {jobs} jobs");
    }
}

fn row(groups: u64, jobs: u64) {
    let (before, most_before) = (resident("RssAnon:"), resident("VmHWM:"));
    let mut scheduler = Scheduler::new(1);
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    if std::env::var_os("WITHOUT_STATISTICS").is_none() {
        scheduler.keep_statistics(now);
    }
    scheduler.handle(now, Input::Nodes(vec![node()]));
    let mut running = Vec::new();
    let mut longest = Duration::ZERO;
    for number in 0..jobs {
        // Each job brings its names, as a row does: what stays in memory is what the scheduler keeps.
        let jobs = Input::Jobs(vec![head(number, number % groups)]);
        let begun = Instant::now();
        let outputs = scheduler.handle(now, jobs);
        longest = longest.max(begun.elapsed());
        assign(&mut scheduler, now, outputs, &mut running);
    }
    let (rest, most) = (resident("RssAnon:") - before, resident("VmHWM:") - most_before);
    let decisions = 60_000.min(jobs / 10);
    let mut rounds = [(); 5].map(|()| {
        let begun = Instant::now();
        for n in 0..decisions {
            let (id, fence) = running.swap_remove(usize::try_from(n).expect("small") % running.len());
            let settled = Settled {
                id,
                fence,
                ran: Some(Duration::from_millis(3)),
                rest: None,
                failed: false,
                well: true,
                error: None,
            };
            let outputs = scheduler.handle(now, Input::Settled(vec![settled]));
            assign(&mut scheduler, now, outputs, &mut running);
        }
        begun.elapsed().as_nanos() / u128::from(decisions)
    });
    rounds.sort_unstable();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{groups:>9} {jobs:>10} {:>15} ({:>5}) {:>8.1} {:>15.1} {:>10.1} {:>8.1} {longest:>9.0?}",
        rounds[2],
        rounds[4],
        rest as f64 / jobs as f64,
        (rest as f64 - jobs as f64 * JOB_BYTES) / groups as f64,
        mib(rest),
        mib(most),
    );
}

fn assign(scheduler: &mut Scheduler, now: Timestamp, mut outputs: Vec<Output>, running: &mut Vec<(JobId, Fence)>) {
    while let Some(Output::Assign(picks)) = outputs.into_iter().find(|output| matches!(output, Output::Assign(_))) {
        let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect();
        running.extend(picks.iter().map(|pick| (pick.job, pick.fence.next())));
        outputs = scheduler.handle(now, Input::Replied(replies));
    }
}

fn node() -> Node {
    Node {
        incarnation: Incarnation(Uuid::from_u128(1)),
        name: NodeName::new("n").expect("a good name"),
        host: Host {
            name: String::new(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 1,
            started: 1,
            version: None,
        },
        slots: 8,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new("t").expect("a good name")]),
        joined_at: Timestamp::MIN,
        lease: std::time::Duration::from_secs(5),
        lease_until: Timestamp::MAX,
        lost: false,
        dispatcher: true,
    }
}

fn head(number: u64, group: u64) -> JobHead {
    JobHead {
        id: JobId::from_uuid(Uuid::from_u128(
            u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        )),
        seq: i64::try_from(number).expect("small"),
        task: TaskName::new("t").expect("a good name"),
        queue: QueueName::default(),
        group: GroupName::new(format!("g{group}")).expect("a good name"),
        priority: Priority::default(),
        state: JobState::Waiting,
        due: Some(Timestamp::from_micros(1_700_000_000_000_000)),
        fence: Fence(0),
        crashes: 0,
        node: None,
        key: None,
        submitted_at: Timestamp::from_micros(1_700_000_000_000_000),
        expires: None,
        args_bytes: 0,
        awaits: None,
    }
}

/// Bytes of memory, as the kernel counts them: now, the program itself left out (`RssAnon:`), or the most so far (`VmHWM:`).
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) * 1024
}
