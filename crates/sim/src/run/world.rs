//! One run: the plan is put on, its faults strike, everything is mended, and then everything must end.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinHandle;
use turnwise_executor::Executor;
use turnwise_store::{MemoryStore, Options, Store, memory::Clock};

use super::{
    ledger::Ledger,
    network::{Network, Process, SimStore, locked},
    plan::Plan,
    task::Runs,
};
use crate::check;

/// How long a mended fleet may take until the next of its jobs ends; far more than any of them needs. Not for all of them:
/// where each error pauses the queue, the person who resumes it may come a hundred times.
pub(super) const ENOUGH: Duration = Duration::from_secs(600);

/// Where the jobs of a run are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Memory,
    Sqlite,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kept::Memory => "memory",
            Kept::Sqlite => "sqlite",
        })
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub violations: Vec<String>,
    pub counts: check::Counts,
    /// The record of the nodes and of the harness, one JSON line each.
    pub trace: String,
    /// Every call of the store and every fault.
    pub log: String,
    /// Virtual time it took.
    pub took: Duration,
}

/// The stores a seed runs on: if it takes commits back, the memory store only.
pub fn stores(seed: u64) -> [Kept; 2] {
    if Plan::new(seed).fails_over() { [Kept::Memory, Kept::Memory] } else { [Kept::Memory, Kept::Sqlite] }
}

/// Runs a seed in virtual time, on this thread.
pub fn run(seed: u64, kept: Kept) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without io needs nothing that could be missing");
    runtime.block_on(async { World::new(Plan::new(seed), kept).run().await })
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) network: Arc<Network>,
    /// The store itself, where it can be failed over.
    pub(super) memory: Option<MemoryStore>,
    /// One failover at a time: a snapshot from before another failover is useless.
    pub(super) failing_over: tokio::sync::Mutex<()>,
    pub(super) trace: Arc<Mutex<Vec<u8>>>,
    pub(super) runs: Runs,
    pub(super) processes: AtomicU64,
    pub(super) nodes: Vec<Mutex<Option<Node>>>,
    pub(super) violations: Mutex<Vec<String>>,
}

/// A node that was started.
pub(super) struct Node {
    pub(super) process: Arc<Process>,
    pub(super) executor: Arc<Executor>,
    pub(super) running: JoinHandle<()>,
}

impl World {
    fn new(plan: Plan, kept: Kept) -> Arc<Self> {
        let mut memory = None;
        let open = |clock: Clock| -> Arc<dyn Store> {
            match kept {
                Kept::Memory => Arc::new(memory.insert(MemoryStore::new(Options::default(), clock)).clone()),
                Kept::Sqlite => Arc::new(
                    turnwise_sqlite::SqliteStore::open_with_clock("sqlite::memory:", Options::default(), clock)
                        .expect("memory can always be opened"),
                ),
            }
        };
        let runs = Runs::default();
        let network = Network::new(plan.seed, Ledger::new(runs.clone()), open);
        let nodes = plan.nodes.iter().map(|_| Mutex::default()).collect();
        Arc::new(Self {
            plan,
            network,
            memory,
            failing_over: tokio::sync::Mutex::default(),
            trace: Arc::default(),
            runs,
            processes: AtomicU64::new(1),
            nodes,
            violations: Mutex::default(),
        })
    }

    async fn run(self: Arc<Self>) -> Report {
        let plan = &self.plan;
        self.network.set_weather(plan.weather.clone());
        self.set_everything().await;
        let nodes = (0..plan.nodes.len()).map(|node| {
            let world = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(world.plan.nodes[node].starts).await;
                world.start(node, false);
            })
        });
        let nodes: Vec<_> = nodes.collect();
        let submitting = tokio::spawn(self.clone().submit_all());
        let people = tokio::spawn(self.clone().people());
        self.clone().faults().await;
        for task in nodes.into_iter().chain([submitting, people]) {
            self.joined("the harness", task.await);
        }
        self.mend().await;
        let ended = self.let_everything_end().await;
        if ended {
            self.contest().await;
        }
        self.stop_all().await;
        self.judge()
    }

    pub(super) fn broken(&self, violation: impl Into<String>) {
        let violation = violation.into();
        self.network.note(format_args!("violation: {violation}"));
        locked(&self.violations).push(violation);
    }

    pub(super) fn joined(&self, what: &str, joined: Result<(), tokio::task::JoinError>) {
        if let Err(error) = joined {
            self.broken(format!("{what} panicked: {error}"));
        }
    }

    /// What only the harness knows.
    pub(super) fn record(&self, line: serde_json::Value) {
        let mut trace = locked(&self.trace);
        trace.extend_from_slice(line.to_string().as_bytes());
        trace.push(b'\n');
    }

    pub(super) fn process(&self, name: &str) -> (Arc<Process>, SimStore) {
        let process = Process::new(self.processes.fetch_add(1, Ordering::Relaxed), name);
        let store = self.network.attach(&process);
        (process, store)
    }
}

#[cfg(test)]
mod tests {
    use turnwise_core::{
        JobId, Json, NewJob, NodeName, QueueName, RetryPolicy,
        settings::{Concurrency, OnError, QueueSettings, Settings},
    };

    use super::*;
    use crate::run::{
        network::Weather,
        plan::{NodePlan, Submission},
        task::{End, Step, TASKS},
    };

    fn job(number: u64, queue: &str) -> NewJob {
        let steps = Json::encode("args", &[Step { millis: 1, end: End::Error }]).unwrap();
        let id = JobId::from_parts(number, [0; 10]);
        let mut job = NewJob::new(id, turnwise_core::TaskName::new(TASKS[0]).unwrap(), steps);
        job.queue = QueueName::new(queue).unwrap();
        job.retry = Some(RetryPolicy::None);
        job
    }

    /// Jobs with their due times. Every one of them fails, and pauses its queue.
    fn failing(jobs: Vec<(Duration, NewJob)>) -> Plan {
        let some = Plan::new(1);
        let careful =
            QueueSettings { concurrency: Concurrency::Serial, on_error: OnError::Pause, ..QueueSettings::default() };
        let queues = jobs.iter().map(|(_, job)| (job.queue.clone(), careful.clone())).collect();
        let submission = |(due, job)| Submission { at: Duration::ZERO, jobs: vec![job], delays: vec![Some(due)] };
        // The dispatcher runs none of the jobs: it learns of their ends only as news, and all rings are lost.
        let node = |name: &str, dispatch, queues, poll| NodePlan {
            name: NodeName::new(name).unwrap(),
            slots: 40,
            more_slots: 0,
            queue_capacity: 0,
            batch_size: 100,
            page: 100,
            queues,
            tasks: 1,
            dispatch,
            lease: Duration::from_secs(2),
            poll_interval: Duration::from_millis(poll),
            starts: Duration::ZERO,
            ..some.nodes[0].clone()
        };
        Plan {
            nodes: vec![node("n0", true, Some(Default::default()), 1_000), node("n1", false, None, 10)],
            settings: Settings { queues, ..Settings::default() },
            jobs: jobs.into_iter().map(submission).collect(),
            people: Vec::new(),
            faults: Vec::new(),
            weather: Weather { unheard: 1.0, ..Weather::fair(1) },
            mended: Duration::from_secs(2),
            ..some
        }
    }

    fn violations(plan: Plan) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { World::new(plan, Kept::Memory).run().await }).violations
    }

    #[test]
    fn a_queue_that_each_of_its_jobs_pauses_has_all_the_time_it_needs() {
        let jobs = (1..=80).map(|number| (Duration::ZERO, job(number, "q"))).collect();
        assert_eq!(violations(failing(jobs)), [""; 0]);
    }

    #[test]
    fn an_error_of_just_now_need_not_have_paused_its_queue_yet() {
        // A queue every 50 ms, around the time of the check: 2 s, three leases and 5 s from the beginning.
        let due = |number| Duration::from_millis(12_000 + 50 * number);
        let jobs = (1..=40).map(|number| (due(number), job(number, &format!("q{number}")))).collect();
        assert_eq!(violations(failing(jobs)), [""; 0]);
    }
}
