//! How soon the jobs of killed nodes run again, and that no other jobs do. `TURNWISE_FULL=1` kills a hundred nodes.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    time::{Duration, Instant},
};

use support::{Harness, Node, number, until};
use turnwise_sim::history::{Line, NodeEvent};
use turnwise_testpg::Cluster;

const NODES: usize = 8;
const SLOTS: &str = "6";
const JOBS: usize = 24;
const KILLED_AT_ONCE: usize = 4;

/// With the default settings. The jobs never end by themselves, so each is also a long healthy one, until its node is killed.
#[test]
fn jobs_of_a_killed_node_run_again_within_fifteen_seconds_and_no_others_do() {
    let mut harness = Harness::on_postgres(Cluster::shared());
    let mut names = (1..).map(|n| format!("w{n}"));
    let mut nodes: Vec<Node> = Vec::new();
    let mut rescues: Vec<Duration> = Vec::new();
    let mut killed: BTreeSet<String> = BTreeSet::new();
    let mut traces: Vec<Line> = Vec::new();
    for _ in 0..number(1, 25) {
        while nodes.len() < NODES {
            nodes.push(harness.serve(&names.next().expect("endless"), &["--slots", SLOTS]));
        }
        let jobs = harness.submit(JOBS, "sleep", r#"{"ms":3600000}"#);
        let hosts = until("every job to run", || {
            let hosts = hosts(&nodes, &jobs, 1);
            (hosts.len() == JOBS).then_some(hosts)
        });
        // The nodes with the most jobs are killed; the dispatcher is among them now and then.
        let mut load: BTreeMap<usize, usize> = BTreeMap::new();
        hosts.values().for_each(|at| *load.entry(*at).or_default() += 1);
        let mut victims: Vec<usize> = load.keys().copied().collect();
        victims.sort_by_key(|at| std::cmp::Reverse(load[at]));
        victims.truncate(KILLED_AT_ONCE);
        victims.sort_unstable();
        let orphans: Vec<&String> = jobs.iter().filter(|job| victims.contains(&hosts[*job])).collect();
        let mut killed_at: BTreeMap<usize, Instant> = BTreeMap::new();
        for at in victims.iter().rev() {
            let node = nodes.remove(*at);
            killed.extend(node.incarnations());
            traces.extend(node.trace());
            killed_at.insert(*at, Instant::now());
            harness.kill(node);
        }
        let mut waiting: BTreeMap<&String, usize> = orphans.into_iter().map(|job| (job, hosts[job])).collect();
        let mut rescued: BTreeMap<usize, Duration> = BTreeMap::new();
        until("all to run again", || {
            let again = self::hosts(&nodes, &jobs, 2);
            waiting.retain(|job, victim| {
                let runs = again.contains_key(*job);
                if runs {
                    // The last of its jobs counts.
                    rescued.insert(*victim, killed_at[victim].elapsed());
                }
                !runs
            });
            waiting.is_empty().then_some(())
        });
        rescues.extend(rescued.values());
        harness.cancel(&jobs);
        harness.wait_until_all_ended();
    }
    for node in nodes {
        traces.extend(node.trace());
        node.stop();
    }
    let lost = traces.iter().filter_map(|line| match line {
        Line::Node { event: NodeEvent::NodeLost { job, lost, .. }, .. } if !killed.contains(lost) => Some((job, lost)),
        _ => None,
    });
    assert_eq!(lost.collect::<Vec<_>>(), [], "taken from nodes that lived");
    rescues.sort_unstable();
    let at = |part: usize| rescues[(rescues.len() * part).div_ceil(100).saturating_sub(1)];
    let (p50, p99, count) = (at(50), at(99), rescues.len());
    let _ =
        writeln!(std::io::stdout(), "{count} kills: rescue p50 {p50:.1?}, p99 {p99:.1?}, none from nodes that lived");
    assert!(p99 <= Duration::from_secs(15), "{rescues:?}");
}

/// On which node each job has begun under this fence or a later one.
fn hosts(nodes: &[Node], jobs: &[String], fence: i64) -> BTreeMap<String, usize> {
    let mut hosts = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for line in node.trace() {
            if let Line::Node { event: NodeEvent::Start { job, fence: began }, .. } = line
                && began >= fence
                && jobs.contains(&job)
            {
                hosts.insert(job, at);
            }
        }
    }
    hosts
}
