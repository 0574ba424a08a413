//! One run: the plan is put on, its faults strike, everything is mended, and then everything must end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::task::JoinHandle;
use turnwise_core::{
    Incarnation, Job, JobId, NodeName, QueueName, State,
    lifecycle::{self, Event},
    node::Host,
    settings::{GroupSettings, Pause, QueueSettings},
};
use turnwise_executor::{Config, Executor, executor::Builder, trace::Trace};
use turnwise_store::{
    Enqueued, Filter, Intervention, MemoKind, MemoryStore, NewMemo, Options, Store, StoreError, memo::Draft,
    memory::Clock,
};

use super::{
    chance::Chance,
    contest,
    ledger::Ledger,
    network::{Alive, Network, Process, SimStore, Weather, locked},
    plan::{self, Contest, Deed, Fault, NodePlan, Plan, Submission},
    task::{self, Here, Runs},
};
use crate::{History, check};

/// How long a mended fleet may take until the next of its jobs ends; far more than any of them needs. Not for all of them:
/// where each error pauses the queue, the person who resumes it may come a hundred times.
const ENOUGH: Duration = Duration::from_secs(600);

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

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub violations: Vec<String>,
    pub counts: check::Counts,
    /// The record of the nodes and of the harness, one JSON line each.
    pub trace: String,
    /// Every call of the store and every fault.
    pub log: String,
    /// Virtual time it took.
    pub took: Duration,
}

/// Where a seed can run: whose commits are taken back, on the memory store only.
pub fn stores(seed: u64) -> [Kept; 2] {
    if Plan::new(seed).fails_over() { [Kept::Memory, Kept::Memory] } else { [Kept::Memory, Kept::Sqlite] }
}

/// Runs a seed in virtual time, on this thread.
pub fn run(seed: u64, kept: Kept) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without io needs nothing that could be missing");
    runtime.block_on(async { World::new(Plan::new(seed), kept).run().await })
}

struct World {
    plan: Plan,
    network: Arc<Network>,
    /// The store itself, where it can be failed over.
    memory: Option<MemoryStore>,
    /// One failover at a time: a snapshot from before another one is of no use.
    failing_over: tokio::sync::Mutex<()>,
    trace: Arc<Mutex<Vec<u8>>>,
    runs: Runs,
    processes: AtomicU64,
    nodes: Vec<Mutex<Option<Node>>>,
    violations: Mutex<Vec<String>>,
}

/// A node that was started.
struct Node {
    process: Arc<Process>,
    executor: Arc<Executor>,
    running: JoinHandle<()>,
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

    async fn run(self: Arc<Self>) -> Run {
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

    fn broken(&self, violation: impl Into<String>) {
        let violation = violation.into();
        self.network.note(format_args!("violation: {violation}"));
        locked(&self.violations).push(violation);
    }

    fn joined(&self, what: &str, joined: Result<(), tokio::task::JoinError>) {
        if let Err(error) = joined {
            self.broken(format!("{what} panicked: {error}"));
        }
    }

    /// What only the harness knows.
    fn record(&self, line: serde_json::Value) {
        let mut trace = locked(&self.trace);
        trace.extend_from_slice(line.to_string().as_bytes());
        trace.push(b'\n');
    }

    fn process(&self, name: &str) -> (Arc<Process>, SimStore) {
        let process = Process::new(self.processes.fetch_add(1, Ordering::Relaxed), name);
        let store = self.network.attach(&process);
        (process, store)
    }

    // --- nodes -------------------------------------------------------------------------------------------------

    fn start(self: &Arc<Self>, at: usize, elsewhere: bool) {
        if locked(&self.nodes[at]).is_some() {
            return;
        }
        let plan = &self.plan.nodes[at];
        let (process, store) = self.process(plan.name.as_str());
        self.network.note(format_args!("{} starts", plan.name));
        // In every other seed all are on one machine, and see each other's processes.
        let machine = if self.plan.seed.is_multiple_of(2) { "m".to_owned() } else { format!("m{at}") };
        let machine = if elsewhere { format!("{machine}-{}", process.id) } else { machine };
        let host = Host {
            name: machine.clone(),
            boot_id: machine.clone(),
            pid_namespace: String::new(),
            pid: u32::try_from(process.id).unwrap_or(u32::MAX),
            started: process.id,
        };
        let network = self.network.clone();
        let is_gone = move |other: &Host| other.boot_id == machine && !network.lives(other.started);
        let process_of_the_node = turnwise_executor::Process { host, is_gone: Arc::new(is_gone) };
        let connect = move || {
            let store: Arc<dyn Store> = Arc::new(store.clone());
            Box::pin(async move { Ok::<_, StoreError>(store) }) as _
        };
        let executor = Builder::new(Arc::new(connect), config(plan))
            .registry(task::registry(plan.tasks).expect("names of our own"))
            .state(Here { runs: self.runs.clone(), process: process.clone() })
            .trace(Trace::to_memory(self.trace.clone()))
            .simulated(process_of_the_node, Chance::new(self.plan.seed, 100 + process.id).number(), plan.page)
            .build()
            .expect("a good set-up");
        let executor = Arc::new(executor);
        let living = executor.clone();
        let running = tokio::spawn(Alive::new(process.clone(), async move { living.live_here().await }));
        *locked(&self.nodes[at]) = Some(Node { process, executor, running });
    }

    /// Waits until the node is gone; if it was killed, that is put on record.
    async fn gone(&self, at: usize, process: &Process) {
        // Another fault may have struck it first, and it may be back already.
        let Some(node) = locked(&self.nodes[at]).take_if(|node| node.process.id == process.id) else { return };
        self.joined(&node.process.name, node.running.await);
        self.network.detach(&node.process);
        if node.process.is_killed() {
            self.network.note(format_args!("{} is dead", node.process.name));
            if let Some(killed) = self.last_incarnation(&self.plan.nodes[at].name) {
                self.record(json!({"event": "kill", "killed": killed}));
            }
        }
    }

    fn last_incarnation(&self, name: &NodeName) -> Option<String> {
        let trace = locked(&self.trace);
        let text = std::str::from_utf8(&trace).ok()?;
        let joined = text
            .lines()
            .rev()
            .find(|line| line.contains(r#""event":"join""#) && line.contains(&format!(r#""node":"{name}""#)))?;
        let line: serde_json::Value = serde_json::from_str(joined).ok()?;
        line.get("incarnation")?.as_str().map(str::to_owned)
    }

    fn process_of(&self, at: usize) -> Option<Arc<Process>> {
        locked(&self.nodes[at]).as_ref().map(|node| node.process.clone())
    }

    fn executor_of(&self, at: usize) -> Option<Arc<Executor>> {
        locked(&self.nodes[at]).as_ref().map(|node| node.executor.clone())
    }

    // --- faults ------------------------------------------------------------------------------------------------

    async fn faults(self: Arc<Self>) {
        let mut tasks = Vec::new();
        for (at, fault) in self.plan.faults.clone() {
            let world = self.clone();
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(at).await;
                world.strike(fault).await;
            }));
        }
        tokio::time::sleep(self.plan.mended.saturating_sub(self.network.elapsed())).await;
        for task in tasks {
            self.joined("a fault", task.await);
        }
    }

    async fn strike(self: &Arc<Self>, fault: Fault) {
        self.network.note(format_args!("fault: {fault:?}"));
        match fault {
            Fault::Kill { node, back, elsewhere } => {
                let Some(process) = self.process_of(node) else { return };
                process.kill();
                self.gone(node, &process).await;
                tokio::time::sleep(back).await;
                self.start(node, elsewhere);
            }
            Fault::Doom { node, doom, back } => {
                let Some(process) = self.process_of(node) else { return };
                process.doom(Some(doom));
                // It may take its time to come to that.
                for _ in 0..400 {
                    if process.is_killed() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                if process.is_killed() {
                    self.gone(node, &process).await;
                    tokio::time::sleep(back).await;
                    self.start(node, false);
                }
            }
            Fault::Deploy { node, back } => {
                let (Some(executor), Some(process)) = (self.executor_of(node), self.process_of(node)) else { return };
                executor.stop().await;
                self.gone(node, &process).await;
                tokio::time::sleep(back).await;
                self.start(node, false);
            }
            Fault::Freeze { node, span } => {
                let Some(process) = self.process_of(node) else { return };
                process.freeze(true);
                tokio::time::sleep(span).await;
                process.freeze(false);
            }
            Fault::Cut { node, span } => {
                let Some(process) = self.process_of(node) else { return };
                process.cut.store(true, Ordering::Relaxed);
                tokio::time::sleep(span).await;
                process.cut.store(false, Ordering::Relaxed);
            }
            Fault::Outage { span } => {
                self.network.set_weather(Weather { outage: true, ..self.plan.weather.clone() });
                tokio::time::sleep(span).await;
                self.network.set_weather(self.plan.weather.clone());
            }
            Fault::Storm { weather, span } => {
                self.network.set_weather(weather);
                tokio::time::sleep(span).await;
                self.network.set_weather(self.plan.weather.clone());
            }
            Fault::Jump { millis } => self.network.jump(millis),
            Fault::Failover { lost, gap } => self.fail_over(lost, gap).await,
        }
    }

    async fn fail_over(&self, lost: Duration, gap: Duration) {
        let Some(memory) = &self.memory else { return };
        let _alone = self.failing_over.lock().await;
        let (snapshot, ledger) = (memory.snapshot(), locked(&self.network.ledger).clone());
        tokio::time::sleep(lost).await;
        memory.fail_over(&snapshot);
        let changed = locked(&self.network.ledger).take_back(ledger);
        self.network.note(format_args!("failed over: {} jobs are not what they were", changed.len()));
        for (job, gone) in changed {
            self.record(json!({"event": "taken_back", "job": job, "gone": gone}));
        }
        self.network.set_weather(Weather { outage: true, ..self.plan.weather.clone() });
        tokio::time::sleep(gap).await;
        self.network.set_weather(self.plan.weather.clone());
    }

    /// Everything works again, and every node is there.
    async fn mend(self: &Arc<Self>) {
        self.network.note(format_args!("everything is mended"));
        self.network.set_weather(self.plan.weather.clone());
        for at in 0..self.nodes.len() {
            if let Some(process) = self.process_of(at) {
                process.freeze(false);
                process.cut.store(false, Ordering::Relaxed);
                process.doom(None);
                if process.is_killed() {
                    self.gone(at, &process).await;
                }
            }
            self.start(at, false);
        }
        // Long enough for leases to run out, for a new dispatcher to read everything, and for it to see to errors.
        tokio::time::sleep(self.plan.nodes[0].lease * 3 + Duration::from_secs(5)).await;
        let poll = self.plan.nodes.iter().map(|node| node.poll_interval).max().unwrap_or_default();
        let lag = poll * 2 + Duration::from_secs(1);
        while !locked(&self.network.ledger).check_trouble(self.network.elapsed(), lag) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    // --- jobs --------------------------------------------------------------------------------------------------

    async fn submit_all(self: Arc<Self>) {
        let (_process, store) = self.process("client");
        let store = Arc::new(store);
        let mut left: BTreeMap<QueueName, usize> = self.plan.settings.queues.keys().map(|q| (q.clone(), 1)).collect();
        for submission in &self.plan.jobs {
            *left.entry(submission.jobs[0].queue.clone()).or_default() += 1;
        }
        let left = Arc::new(Mutex::new(left));
        let mut tasks = Vec::new();
        for submission in self.plan.jobs.clone() {
            let (world, store, left) = (self.clone(), store.clone(), left.clone());
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(submission.at).await;
                let queue = submission.jobs[0].queue.clone();
                world.submit(&store, submission).await;
                world.seal_if_last(&left, queue).await;
            }));
        }
        for queue in self.plan.settings.queues.keys() {
            self.seal_if_last(&left, queue.clone()).await;
        }
        for task in tasks {
            self.joined("a client", task.await);
        }
    }

    /// Calls until it is answered, as a client does.
    async fn submit(&self, store: &SimStore, submission: Submission) {
        let mut jobs = submission.jobs;
        for (job, delay) in jobs.iter_mut().zip(submission.delays) {
            job.due = delay.map(|delay| self.network.now().plus(delay));
        }
        let answer: Vec<Enqueued> = loop {
            match store.enqueue(jobs.clone()).await {
                Ok(answer) => break answer,
                Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => return self.broken(format!("a submit was refused: {error}")),
            }
        };
        for enqueued in answer {
            self.record(json!({"event": "submit", "job": enqueued.id}));
        }
    }

    /// A queue that others wait for is sealed with its last job.
    async fn seal_if_last(&self, left: &Mutex<BTreeMap<QueueName, usize>>, queue: QueueName) {
        let last = {
            let mut left = locked(left);
            let left = left.entry(queue.clone()).or_default();
            *left -= 1;
            *left == 0
        };
        if last && self.is_waited_for(&queue) {
            self.set_queue(&queue, |world, set| set.sealed = Some(world.network.now())).await;
        }
    }

    fn is_waited_for(&self, queue: &QueueName) -> bool {
        self.plan.settings.queues.values().any(|settings| settings.after.contains(queue))
    }

    // --- people ------------------------------------------------------------------------------------------------

    async fn people(self: Arc<Self>) {
        let (_process, store) = self.process("person");
        for (at, deed) in self.plan.people.clone() {
            tokio::time::sleep(at.saturating_sub(self.network.elapsed())).await;
            self.network.note(format_args!("deed: {deed:?}"));
            match deed {
                Deed::Cancel(job) => self.decide(&store, self.job_id(job), &Event::Cancel).await,
                Deed::Retry(job) => {
                    // A queue that others wait for is not filled again once it may be finished.
                    if !self.is_waited_for(&self.job_queue(job)) {
                        self.decide(&store, self.job_id(job), &Event::Retry).await;
                    }
                }
                Deed::PauseQueue(queue) => {
                    let pause = |world: &World| Pause { since: world.network.now(), reason: None };
                    self.set_queue(&queue, |world, set| set.paused = Some(pause(world))).await;
                }
                Deed::ResumeQueue(queue) => self.set_queue(&queue, |_, set| set.paused = None).await,
                Deed::Limit(queue, limit) => self.set_queue(&queue, |_, set| set.concurrency = limit).await,
                Deed::Weigh(group, weight) => {
                    let change = |_: &World, set: &mut GroupSettings| set.weight = weight;
                    self.set(MemoKind::Group, group.as_str(), change).await;
                }
            }
        }
    }

    fn job_at(&self, number: usize) -> &turnwise_core::NewJob {
        self.plan.jobs.iter().flat_map(|submission| &submission.jobs).nth(number).expect("the plan knows its jobs")
    }

    fn job_id(&self, number: usize) -> JobId {
        self.job_at(number).id
    }

    fn job_queue(&self, number: usize) -> QueueName {
        self.job_at(number).queue.clone()
    }

    /// Reads, asks core, and writes if the job still is what was read; as a person does, with some patience.
    async fn decide(&self, store: &SimStore, id: JobId, event: &Event) {
        for _ in 0..5 {
            let Ok(job) = store.job(id).await else { continue };
            let Some(job) = job else { return };
            let Ok(to) = lifecycle::decide(&(&job).into(), event, self.network.now(), 0.0) else { return };
            self.record(json!({"event": "decide", "job": id}));
            let intervention = Intervention { job: id, state: job.state, fence: job.fence, to };
            if store.control(vec![intervention]).await.is_ok() {
                return;
            }
        }
    }

    async fn set_queue(&self, queue: &QueueName, change: impl Fn(&World, &mut QueueSettings)) {
        self.set(MemoKind::Queue, queue.as_str(), change).await;
    }

    /// Changes one setting, if nobody wrote meanwhile, until it is written.
    async fn set<S>(&self, kind: MemoKind, name: &str, change: impl Fn(&World, &mut S))
    where
        S: serde::Serialize + serde::de::DeserializeOwned + Default,
    {
        let (process, store) = self.process("settings");
        loop {
            if let Ok(mut draft) = Draft::read(&store, [kind]).await {
                let mut set: S = draft.get(kind, name).and_then(Result::ok).unwrap_or_default();
                change(self, &mut set);
                draft.set(kind, name, Some(&set)).expect("settings are plain values");
                if draft.write(&store, None).await.is_ok_and(|written| written) {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.network.detach(&process);
    }

    /// Before anything begins: all that is set.
    async fn set_everything(&self) {
        let settings = &self.plan.settings;
        let text = |value: Result<String, serde_json::Error>| value.expect("settings are plain values");
        let mut memos = Vec::new();
        let mut add = |kind, name: &str, value| {
            memos.push(NewMemo { kind, name: name.to_owned(), value: Some(value), seen: None });
        };
        for (name, set) in &settings.queues {
            add(MemoKind::Queue, name.as_str(), text(serde_json::to_string(set)));
        }
        for (name, set) in &settings.groups {
            add(MemoKind::Group, name.as_str(), text(serde_json::to_string(set)));
        }
        for (name, set) in &settings.tasks {
            add(MemoKind::Task, name.as_str(), text(serde_json::to_string(set)));
        }
        for (name, set) in &settings.keys {
            add(MemoKind::Key, name.as_str(), text(serde_json::to_string(set)));
        }
        for (n, weight) in self.plan.contest.weights.iter().enumerate() {
            let set = GroupSettings { weight: *weight, ..GroupSettings::default() };
            add(MemoKind::Group, plan::contestant(n).as_str(), text(serde_json::to_string(&set)));
        }
        let (process, store) = self.process("settings");
        while store.remember(None, memos.clone()).await.is_err() {}
        self.network.detach(&process);
    }

    // --- the end -----------------------------------------------------------------------------------------------

    /// Resumes what is paused and retries what waits for a person, until nothing is left. `false`: something is, and none of it
    /// has ended for long.
    async fn let_everything_end(&self) -> bool {
        let (process, store) = self.process("person");
        let (mut least, mut since) = (usize::MAX, self.network.elapsed());
        let mut ended = false;
        while !ended && self.network.elapsed() - since < ENOUGH {
            for queue in self.plan.settings.queues.keys() {
                let waited_for = self.is_waited_for(queue);
                let resume = |world: &World, set: &mut QueueSettings| {
                    set.paused = None;
                    // A failover may have taken the seal back.
                    if waited_for && set.sealed.is_none() {
                        set.sealed = Some(world.network.now());
                    }
                };
                self.set_queue(queue, resume).await;
            }
            for _ in 0..20 {
                let left = self.unfinished();
                for job in left.iter().filter(|job| job.state == State::Stuck && job.due_at.is_none()) {
                    self.decide(&store, job.id, &Event::Retry).await;
                }
                ended = left.is_empty();
                if ended {
                    break;
                }
                if left.len() < least {
                    (least, since) = (left.len(), self.network.elapsed());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        self.network.detach(&process);
        for job in self.unfinished() {
            self.broken(format!(
                "job {} of queue {}, task {}, is still {} long after everything was mended (fence {}, crashes {})",
                job.id, job.queue, job.task, job.state, job.fence.0, job.counts.crashes
            ));
        }
        ended
    }

    fn unfinished(&self) -> Vec<Job> {
        let states = State::ALL.into_iter().filter(|state| !state.finished()).collect();
        self.listed(Filter { states, limit: Some(Filter::MAX_LIMIT), ..Filter::default() })
    }

    fn listed(&self, filter: Filter) -> Vec<Job> {
        match self.network.at_once(self.network.store().jobs(filter)) {
            Ok(jobs) => jobs,
            Err(error) => {
                self.broken(format!("the store cannot list its jobs: {error}"));
                Vec::new()
            }
        }
    }

    /// Groups with more work than slots, and nothing wrong.
    async fn contest(&self) {
        let Contest { weights, jobs } = &self.plan.contest;
        self.network.set_weather(Weather::fair(self.plan.weather.delay));
        let (process, store) = self.process("client");
        let submission = Submission { at: Duration::ZERO, delays: vec![None; jobs.len()], jobs: jobs.clone() };
        self.submit(&store, submission).await;
        let begun = self.network.elapsed();
        while self.network.elapsed() - begun < ENOUGH && !self.unfinished().is_empty() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.network.detach(&process);
        for job in self.unfinished() {
            self.broken(format!("job {} of the contest is still {}", job.id, job.state));
        }
        let news = Duration::from_millis(50 + 6 * self.plan.weather.delay);
        let ledger = locked(&self.network.ledger);
        let known = jobs.iter().filter_map(|job| ledger.told_since(job.id)).max().unwrap_or(begun);
        let found = contest::judge(&ledger, weights, known, news);
        drop(ledger);
        found.into_iter().for_each(|violation| self.broken(violation));
    }

    async fn stop_all(&self) {
        for at in 0..self.nodes.len() {
            let (Some(executor), Some(process)) = (self.executor_of(at), self.process_of(at)) else { continue };
            executor.stop().await;
            if tokio::time::timeout(ENOUGH, self.gone(at, &process)).await.is_err() {
                self.broken(format!("{} does not stop", self.plan.nodes[at].name));
            }
        }
    }

    fn judge(&self) -> Run {
        if self.plan.leaves_gaps() {
            self.record(json!({"event": "outage"}));
        }
        for job in self.listed(Filter { limit: Some(Filter::MAX_LIMIT), ..Filter::default() }) {
            self.record(json!({"event": "end", "job": job.id, "state": job.state}));
        }
        let running = self.unfinished().iter().filter(|job| job.state.assigned()).count();
        let fleet = self.network.at_once(self.network.store().nodes());
        let nodes = fleet.map_or(usize::MAX, |fleet| fleet.nodes.len());
        self.record(json!({"event": "rest", "running": running, "nodes": nodes}));
        let trace = String::from_utf8_lossy(&locked(&self.trace)).into_owned();
        let mut violations = std::mem::take(&mut *locked(&self.violations));
        violations.append(&mut locked(&self.network.ledger).violations);
        let counts = match History::parse("trace", &trace) {
            Ok(history) => {
                let report = check(&history);
                violations.extend(report.violations.iter().map(ToString::to_string));
                violations.extend(self.unasked_runs(&history));
                report.counts
            }
            Err(error) => {
                violations.push(error.to_string());
                check::Counts::default()
            }
        };
        Run { violations, counts, trace, log: self.network.take_log(), took: self.network.elapsed() }
    }

    /// Whatever began had been assigned so, in a commit.
    fn unasked_runs(&self, history: &History) -> Vec<String> {
        use crate::history::{Line, NodeEvent};
        let ledger = locked(&self.network.ledger);
        let begun = history.lines.iter().filter_map(|line| match line {
            Line::Node { incarnation, event: NodeEvent::Start { job, fence }, .. } => Some((job, *fence, incarnation)),
            _ => None,
        });
        let asked = |job: &str, fence, incarnation: &str| {
            let id = |text: &str| text.parse().ok();
            let (Some(job), Some(node)) = (id(job), id(incarnation)) else { return false };
            ledger.was_assigned(JobId(job), turnwise_core::Fence(fence), Incarnation(node))
        };
        begun
            .filter(|(job, fence, incarnation)| !asked(job, *fence, incarnation))
            .map(|(job, fence, node)| format!("job {job} began on {node} under fence {fence}, which no commit gave it"))
            .collect()
    }
}

fn config(plan: &NodePlan) -> Config {
    let mut config = Config::new(plan.name.clone());
    config.core_pool_size = plan.slots;
    config.max_pool_size = Some(plan.slots + plan.more_slots);
    config.queue_capacity = plan.queue_capacity;
    config.batch_size = plan.batch_size;
    // All of them compete for the slots of the last part of a run.
    config.queues = plan.queues.clone().map(|mut queues| {
        queues.insert(plan::contest_queue());
        queues
    });
    config.lease = plan.lease;
    config.poll_interval = plan.poll_interval;
    config.cancel_grace = plan.cancel_grace;
    config.await_termination = plan.await_termination;
    config.dispatch = plan.dispatch;
    config
}

#[cfg(test)]
mod tests {
    use turnwise_core::{
        Json, NewJob, RetryPolicy,
        settings::{Concurrency, OnError, Settings},
    };

    use super::*;
    use crate::run::task::{End, Step, TASKS};

    fn job(number: u64, queue: &str) -> NewJob {
        let steps = Json::encode("args", &[Step { millis: 1, end: End::Error }]).unwrap();
        let id = JobId::from_parts(number, [0; 10]);
        let mut job = NewJob::new(id, turnwise_core::TaskName::new(TASKS[0]).unwrap(), steps);
        job.queue = QueueName::new(queue).unwrap();
        job.retry = RetryPolicy::None;
        job
    }

    /// Jobs that are due by then. Every one of them fails, and pauses its queue.
    fn failing(jobs: Vec<(Duration, NewJob)>) -> Plan {
        let some = Plan::new(1);
        let careful =
            QueueSettings { concurrency: Concurrency::Serial, on_error: OnError::Pause, ..QueueSettings::default() };
        let queues = jobs.iter().map(|(_, job)| (job.queue.clone(), careful.clone())).collect();
        let submission = |(due, job)| Submission { at: Duration::ZERO, jobs: vec![job], delays: vec![Some(due)] };
        // The one that dispatches runs none of them: it hears of their ends only as news, and no ring is heard.
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
        // A queue every 50 ms, around the time at which everything is looked at: 2 s, three leases and 5 s from the beginning.
        let due = |number| Duration::from_millis(12_000 + 50 * number);
        let jobs = (1..=40).map(|number| (due(number), job(number, &format!("q{number}")))).collect();
        assert_eq!(violations(failing(jobs)), [""; 0]);
    }
}
