//! What a decision costs: `cargo run --release -p turnwise-core --example decide`.
//!
//! For 10 to 1,000,000 groups with work: nanoseconds from "a job has settled" to "the next one is picked", one job at a
//! time, and bytes per waiting job and per group.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)] // it is a program

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use turnwise_core::{
    Fence, GroupName, Incarnation, JobHead, JobId, Node, NodeName, Priority, QueueName, State, TaskName, Timestamp,
    node::Host,
    scheduler::{Input, Output, Reply, Scheduler, Settled},
    turn::Scheme,
};
use uuid::Uuid;

fn main() {
    println!("{:>9} groups {:>10} jobs {:>12} {:>14} {:>12}", "", "", "ns/decision", "bytes/job", "bytes/group");
    for groups in [10_u64, 1_000, 100_000, 1_000_000] {
        let per_group = (1_000_000 / groups).max(2);
        let before = resident();
        let mut scheduler = Scheduler::new(Scheme::default(), 1);
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        scheduler.handle(now, Input::Nodes(vec![node()]));
        let names: Vec<GroupName> =
            (0..groups).map(|n| GroupName::new(format!("g{n}")).expect("a good name")).collect();
        let with_names = resident();
        let mut running = Vec::new();
        for n in 0..per_group {
            for (group, name) in names.iter().enumerate() {
                let number = n * groups + group as u64;
                let outputs = scheduler.handle(now, Input::Jobs(vec![head(number, name)]));
                assign(&mut scheduler, now, outputs, &mut running);
            }
        }
        let grown = resident() - with_names;
        let decisions = 300_000.min(groups * per_group / 2);
        let begun = Instant::now();
        for n in 0..decisions {
            let (job, fence) = running.swap_remove(usize::try_from(n).expect("small") % running.len());
            let settled = Settled { id: job, fence, ran: Some(Duration::from_millis(3)), rest: None, failed: false };
            let outputs = scheduler.handle(now, Input::Settled(vec![settled]));
            assign(&mut scheduler, now, outputs, &mut running);
        }
        let each = begun.elapsed().as_nanos() as f64 / decisions as f64;
        let jobs = groups * per_group;
        println!(
            "{groups:>9} groups {jobs:>10} jobs {each:>12.0} {:>14.1} {:>12.1}   (names {} bytes/group)",
            grown as f64 / jobs as f64,
            (grown as f64 - jobs as f64 * 52.0) / groups as f64,
            (with_names - before) / groups,
        );
    }
}

fn assign(scheduler: &mut Scheduler, now: Timestamp, mut outputs: Vec<Output>, running: &mut Vec<(JobId, Fence)>) {
    while let Some(Output::Assign(picks)) = outputs.into_iter().find(|output| matches!(output, Output::Assign(_))) {
        let replies = picks.iter().map(|pick| (pick.job, Reply::Assigned(pick.fence.next()))).collect();
        running.extend(picks.iter().map(|pick| (pick.job, pick.fence.next())));
        outputs = scheduler.handle(now, Input::Replied(replies));
    }
}

fn node() -> Node {
    Node {
        incarnation: Incarnation(Uuid::from_u128(1)),
        name: NodeName::new("n").expect("a good name"),
        host: Host { name: String::new(), boot_id: String::new(), pid_namespace: String::new(), pid: 1, started: 1 },
        slots: 8,
        queue_capacity: 0,
        queues: None,
        tasks: BTreeSet::from([TaskName::new("t").expect("a good name")]),
        joined_at: Timestamp::MIN,
        lease_until: Timestamp::MAX,
        lost: false,
        dispatcher: true,
    }
}

fn head(number: u64, group: &GroupName) -> JobHead {
    JobHead {
        id: JobId(Uuid::from_u128(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))),
        seq: i64::try_from(number).expect("small"),
        task: TaskName::new("t").expect("a good name"),
        queue: QueueName::default(),
        group: group.clone(),
        priority: Priority::default(),
        state: State::Waiting,
        due: Some(Timestamp::from_micros(1_700_000_000_000_000)),
        fence: Fence(0),
        crashes: 0,
        node: None,
        key: None,
        submitted_at: Timestamp::from_micros(1_700_000_000_000_000),
        expires: None,
    }
}

/// Bytes of memory in use, as the kernel counts them.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
