//! The scheduler's own answer: why a job does not run yet, and what would change if something else were set.
//!
//! A [`View`] is a real [`Scheduler`] in this process, with the same inputs as the dispatcher's: the settings, the living nodes,
//! all unfinished jobs, the charges. What the dispatcher learnt by watching (how long tasks take, what rates have let through)
//! is learnt here from the last runs in the store, replayed at the times they began.

mod kept;
mod simulation;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use turnwise_core::{
    Fence, Incarnation, Job, JobHead, JobId, JobState, Node, NodeName, QueueName, Serves, TaskName, Timestamp,
    estimate,
    node::Host,
    scheduler::{Input, Output, Pick, Remembered, Reply, Scheduler, Settled},
    settings::{Concurrency, GroupSettings, LimitSettings, QueueSettings, Settings},
    why::gates,
};
use turnwise_store::{Filter, Load, MemoKind, memo};

pub use turnwise_core::why::{Forecast, Gate, Whose, Why};

pub use self::{
    kept::{Asked, KeptView},
    simulation::{Comparison, Simulation, Waits},
};

use crate::{Error, Turnwise, overview::each_page};

/// Runs that are replayed, and jobs in nodes' hands whose begin is looked up.
const RUNS: u32 = 1_000;
const IN_HAND: u32 = 100_000;
/// How many starts a forecast or a simulation looks ahead.
const STARTS: usize = 200_000;
/// A job that has been due for so long would have been started, had a rate allowed it.
const LATE: Duration = Duration::from_secs(1);
/// Times a job is looked up again that moved between two reads.
const LOOK_AGAIN: usize = 5;
/// Jobs of a listing for which is read which jobs they wait for.
const LOOKED_UP: usize = 10_000;
/// Room for every replayed run at once.
const STAND_IN_SLOTS: u32 = 1_000_000;

/// What [`Turnwise::why`] returns about a job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer {
    /// The job as it is now.
    pub job: Job,
    /// The database's time of the answer.
    pub now: Timestamp,
    /// `None`: it has ended.
    pub why: Option<Why>,
    /// Whether the forecast relies on runs whose length is not known: of tasks that have never ended a run, or that have gone on for
    /// longer than usual. Then it says what comes before the job, but not when the job starts.
    pub guessed: bool,
    /// Whether the node that has the job has no lease any more: the dispatcher takes the job back.
    pub lost: bool,
}

impl Turnwise {
    /// Why a job does not run yet, in the scheduler's own words: every closed gate, how many jobs are expected to start
    /// before it, and when it will. A job that has ended has nothing to wait for.
    ///
    /// [`Error::NoSuchJob`] if the job is not there; [`Error::Conflict`] if it changed again and again between the reads;
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn why(&self, id: JobId) -> Result<Answer, Error> {
        for _ in 0..LOOK_AGAIN {
            let job = self.job(id).await?;
            if job.state.finished() {
                return Ok(Answer { now: self.now().await?, job, why: None, guessed: false, lost: false });
            }
            let view = self.scheduler_view().await?;
            // Not known there: it ended, or moved, between the two reads.
            if let Some(why) = view.why(id) {
                let waits = why.forecast.is_some_and(|forecast| !forecast.starts_in.is_zero());
                let (guessed, job) = (waits && view.guesses(), self.job(id).await?);
                let lost = Gate::node_lost(&job, view.inputs.nodes.iter().map(|node| &node.name)).is_some();
                return Ok(Answer { job, now: view.now, why: Some(why), guessed, lost });
            }
        }
        Err(Error::Conflict(id))
    }

    /// Everything that holds a job up, as [`Turnwise::why`] names it, but without a forecast: so the backlog is not read, unless the
    /// job's queue is serial or waits for another one.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn gates_of(&self, job: &Job) -> Result<Vec<Gate>, Error> {
        if !job.state.at_rest() {
            return Ok(self.reasons(std::slice::from_ref(job)).await?.pop().unwrap_or_default());
        }
        let view = if self.depends_on_others(job).await? {
            self.scheduler_view().await?
        } else {
            self.view(Some(job.id)).await?
        };
        // Not known there: it ended, or a node has got it, between the two reads.
        Ok(view.gates(job.id).unwrap_or_default())
    }

    /// Whether what holds the job up depends on jobs of the backlog.
    async fn depends_on_others(&self, job: &Job) -> Result<bool, Error> {
        let depends = |queue: &QueueSettings| queue.concurrency == Concurrency::Serial || !queue.after.is_empty();
        Ok(self.settings().await?.queues.get(&job.queue).is_some_and(depends))
    }

    /// What holds each of these jobs up, as far as its row, the settings and the nodes show it: for listings. Which jobs it waits for
    /// is looked up for the first 10,000 of them that wait.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn reasons(&self, jobs: &[Job]) -> Result<Vec<Vec<Gate>>, Error> {
        if jobs.iter().all(|job| job.state.finished()) {
            return Ok(jobs.iter().map(|_| Vec::new()).collect());
        }
        let store = self.store();
        let (set, fleet) = (self.settings().await?, store.nodes().await?);
        let fresh = jobs.iter().filter(|job| job.state == JobState::Waiting && job.fence == Fence(0));
        let ids: Vec<_> = fresh.map(|job| job.id).take(LOOKED_UP).collect();
        let heads = store.load(Load::These(ids)).await?.jobs;
        let awaits: HashMap<_, _> = heads.into_iter().filter_map(|head| Some((head.id, head.awaits?))).collect();
        let gates = |job: &Job| gates(job, awaits.get(&job.id).map(|awaits| &**awaits), &set, &fleet.nodes, fleet.now);
        Ok(jobs.iter().map(gates).collect())
    }

    /// A scheduler that knows what the dispatcher's knows now.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn scheduler_view(&self) -> Result<View, Error> {
        self.view(None).await
    }

    /// The same; `only`: of the jobs that no node has, it knows this one alone.
    async fn view(&self, only: Option<JobId>) -> Result<View, Error> {
        let store = self.store();
        let fleet = store.nodes().await?;
        let nodes: Vec<_> = fleet.nodes.into_iter().filter(|node| node.alive(fleet.now)).collect();
        let kinds = memo::SETTINGS.into_iter().chain([MemoKind::Charge]).collect();
        let memos = store.recall(kinds).await?;
        let finished = Filter {
            states: vec![JobState::Success, JobState::Failed, JobState::Cancelled],
            limit: Some(RUNS),
            ..Filter::default()
        };
        let in_hand = Filter { in_hands: true, limit: Some(IN_HAND), ..Filter::default() };
        let mut runs = store.jobs(finished).await?;
        runs.extend(store.jobs(in_hand).await?);
        runs.sort_by_key(began);
        let mut heads = Vec::new();
        let now = match only {
            None => each_page(&*store, |page| heads.extend(page)).await?,
            Some(id) => {
                heads.extend(store.load(Load::InHands(None)).await?.jobs);
                let page = store.load(Load::These(vec![id])).await?;
                // A node may have got it between the two reads.
                heads.retain(|head| head.id != id);
                heads.extend(page.jobs);
                page.now
            }
        };
        Ok(View::new(Inputs { now, nodes, charges: memo::charges(&memos), runs, heads }, memo::settings(&memos)))
    }
}

/// When it was given to its node.
fn began(job: &Job) -> Option<Timestamp> {
    job.assigned_at.or(job.started_at)
}

fn ran(job: &Job) -> Option<Duration> {
    Some(job.finished_at?.since(job.started_at?)).filter(|_| job.state.finished())
}

/// What a view is made of.
#[derive(Debug)]
struct Inputs {
    now: Timestamp,
    /// Those that live.
    nodes: Vec<Node>,
    charges: Vec<Remembered>,
    /// The last runs, in the order they began.
    runs: Vec<Job>,
    heads: Vec<JobHead>,
}

/// A copy of the scheduler, made from the store.
#[derive(Debug)]
pub struct View {
    /// The database's time when it was read.
    pub now: Timestamp,
    /// What was set.
    pub settings: Settings,
    inputs: Inputs,
    /// Knows everything but gives out nothing: its nodes have no slots yet.
    closed: Scheduler,
    open: Scheduler,
    /// What the dispatcher is about to assign.
    picks: Vec<Pick>,
    /// How long runs took, by queue and task.
    costs: HashMap<(QueueName, TaskName), Duration>,
}

impl View {
    fn new(inputs: Inputs, settings: Settings) -> Self {
        let now = inputs.now;
        // Rates begin empty when a dispatcher begins.
        let dispatches = inputs.nodes.iter().find(|node| node.dispatcher).map_or(now, |node| node.joined_at);
        let mut closed = inputs.closed(&settings, dispatches.min(now));
        let (mut open, mut picks) = opened(&closed, now, inputs.nodes.clone());
        // A late job under a rate that would start here has not been started there: the rate was set or begun later than the
        // store shows, so it is taken for one that has just begun.
        let picked: HashSet<JobId> = picks.iter().map(|pick| pick.job).collect();
        let held_by_a_rate = |head: &JobHead| picked.contains(&head.id) && is_held_by_a_rate(&settings, head, now);
        if dispatches < now && inputs.heads.iter().any(held_by_a_rate) {
            closed = inputs.closed(&settings, now);
            (open, picks) = opened(&closed, now, inputs.nodes.clone());
        }
        let mut costs = HashMap::new();
        for (job, ran) in inputs.runs.iter().filter_map(|job| Some((job, ran(job)?))) {
            let cost = costs.entry((job.queue.clone(), job.task.clone())).or_insert(ran);
            *cost = estimate::learn(Some(*cost), ran);
        }
        Self { now, settings, inputs, closed, open, picks, costs }
    }

    /// What holds a job up; `None`: it is not among the unfinished jobs.
    fn gates(&self, id: JobId) -> Option<Vec<Gate>> {
        if self.picks.iter().any(|pick| pick.job == id) {
            return Some(Vec::new());
        }
        Some(self.open.why(self.now, id, 0)?.gates)
    }

    /// As [`Turnwise::why`]; `None`: it is not among the unfinished jobs.
    pub fn why(&self, id: JobId) -> Option<Why> {
        match self.picks.iter().position(|pick| pick.job == id) {
            Some(before) => Some(Why::new(Vec::new(), Some(Forecast::new(before, Duration::ZERO)))),
            None => self.open.why(self.now, id, STARTS),
        }
    }

    /// Whether a run is going on whose length is not known, or that has gone on for longer than usual.
    fn guesses(&self) -> bool {
        self.inputs.runs.iter().filter(|job| job.state.assigned()).any(|job| {
            let cost = self.costs.get(&(job.queue.clone(), job.task.clone()));
            cost.is_none_or(|cost| job.started_at.is_some_and(|began| self.now.since(began) > *cost))
        })
    }

    fn cost(&self, head: &JobHead) -> Duration {
        estimate::expected(self.costs.get(&(head.queue.clone(), head.task.clone())).copied())
    }

    /// The living nodes with so many slots among them; where none lives, one that knows every task.
    fn fleet_of(&self, slots: u32) -> Vec<Node> {
        let mut nodes = self.inputs.nodes.clone();
        if nodes.is_empty() {
            nodes.push(stand_in(self.inputs.heads.iter().map(|head| head.task.clone()).collect(), self.now));
        }
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        for (at, node) in (0..count).zip(&mut nodes) {
            node.slots = slots / count + u32::from(at < slots % count);
        }
        nodes
    }
}

impl Inputs {
    /// A scheduler that knows all of it and has given out nothing.
    fn closed(&self, settings: &Settings, rates_since: Timestamp) -> Scheduler {
        let mut scheduler = Scheduler::new(usize::MAX);
        self.replay(&mut scheduler, settings, rates_since);
        let closed = self.nodes.iter().cloned().map(|node| Node { slots: 0, queue_capacity: 0, ..node }).collect();
        scheduler.handle(rates_since, Input::Nodes(closed));
        // Those in nodes' hands, since when they are.
        let begins: HashMap<JobId, Timestamp> = self
            .runs
            .iter()
            .filter(|job| job.state.assigned())
            .filter_map(|job| Some((job.id, job.started_at.or(job.assigned_at)?)))
            .collect();
        let (mut assigned, at_rest): (Vec<_>, Vec<_>) =
            self.heads.iter().cloned().partition(|head| head.state.assigned());
        let begin = |head: &JobHead| begins.get(&head.id).copied().unwrap_or(self.now).min(self.now);
        assigned.sort_by_key(begin);
        for head in assigned {
            scheduler.handle(begin(&head), Input::Jobs(vec![head]));
        }
        scheduler.handle(self.now, Input::Settings(settings.clone()));
        scheduler.handle(self.now, Input::Charges(self.charges.clone()));
        scheduler.handle(self.now, Input::Jobs(at_rest));
        scheduler
    }

    /// Runs through the last runs at the times they began: costs are learnt, rates let them through.
    fn replay(&self, scheduler: &mut Scheduler, settings: &Settings, rates_since: Timestamp) {
        scheduler.handle(rates_since, Input::Settings(only_rates(settings)));
        let tasks = self.runs.iter().map(|job| job.task.clone()).collect();
        scheduler.handle(rates_since, Input::Nodes(vec![stand_in(tasks, self.now)]));
        for job in &self.runs {
            let Some(at) = began(job) else { continue };
            let at = at.clamp(rates_since, self.now);
            scheduler.handle(at, Input::Jobs(vec![head_of(job, at)]));
            match ran(job) {
                Some(ran) => {
                    let settled = Settled {
                        id: job.id,
                        fence: Fence(1),
                        ran: Some(ran),
                        rest: None,
                        failed: false,
                        well: true,
                        error: None,
                    };
                    scheduler.handle(at, Input::Settled(vec![settled]));
                }
                // It goes on, or its length is not known: its token is taken, but nothing is charged yet.
                None => {
                    scheduler.handle(at, Input::Replied(vec![(job.id, Fence(0), Reply::Locked)]));
                    scheduler.handle(at, Input::Gone(vec![job.id]));
                }
            }
        }
    }
}

/// Gives the nodes their slots and sees what is picked at once, be it in one batch or in several. Nothing is prefetched, so
/// that a start is a start.
fn opened(closed: &Scheduler, now: Timestamp, nodes: Vec<Node>) -> (Scheduler, Vec<Pick>) {
    let mut scheduler = closed.clone();
    let nodes = nodes.into_iter().map(|node| Node { queue_capacity: 0, batch_size: None, ..node }).collect();
    let outputs = scheduler.handle(now, Input::Nodes(nodes));
    let picks = outputs.into_iter().find_map(|output| match output {
        Output::Assign(picks) => Some(picks),
        _ => None,
    });
    (scheduler, picks.unwrap_or_default())
}

/// When it is due, by its own time or its queue's schedule.
fn due(settings: &Settings, head: &JobHead) -> Option<Timestamp> {
    settings.queues.get(&head.queue).and_then(|queue| queue.due_by_schedule(head)).or(head.due)
}

/// Whether a job that would start has been late for so long that only a rate can have held it up.
fn is_held_by_a_rate(settings: &Settings, head: &JobHead, now: Timestamp) -> bool {
    due(settings, head).is_some_and(|due| due.plus(LATE) < now) && has_rate(settings, head)
}

fn has_rate(settings: &Settings, head: &JobHead) -> bool {
    settings.queues.get(&head.queue).is_some_and(|queue| queue.rate.is_some())
        || settings.groups.get(&head.group).is_some_and(|group| group.rate.is_some())
        || settings.tasks.get(&head.task).is_some_and(|task| task.rate.is_some())
        || head.key.as_ref().and_then(|key| settings.keys.get(key)).is_some_and(|key| key.rate.is_some())
}

/// What has run was allowed to, whatever has been paused or limited since. All settings are named here, so that a new one cannot be
/// forgotten.
fn only_rates(settings: &Settings) -> Settings {
    let queue = |queue: &QueueSettings| {
        let QueueSettings {
            weight,
            fairness,
            rate,
            paused: _,
            after: _,
            block: _,
            schedule: _,
            concurrency: _,
            per_node: _,
            scheme: _,
            on_error: _,
            sealed: _,
            quiet: _,
        } = queue.clone();
        QueueSettings { weight, fairness, rate, ..QueueSettings::default() }
    };
    let group = |group: &GroupSettings| {
        let GroupSettings { weight, rate, paused: _, concurrency: _, scheme: _, max_waiting: _ } = group.clone();
        GroupSettings { weight, rate, ..GroupSettings::default() }
    };
    let limit = |limit: &LimitSettings| {
        let LimitSettings { rate, concurrency: _ } = *limit;
        LimitSettings { concurrency: None, rate }
    };
    let Settings { installation, queues, groups, tasks, keys } = settings;
    Settings {
        installation: *installation,
        queues: queues.iter().map(|(name, set)| (name.clone(), queue(set))).collect(),
        groups: groups.iter().map(|(name, set)| (name.clone(), group(set))).collect(),
        tasks: tasks.iter().map(|(name, set)| (name.clone(), limit(set))).collect(),
        keys: keys.iter().map(|(name, set)| (name.clone(), limit(set))).collect(),
    }
}

/// The job as it was when its run began.
fn head_of(job: &Job, due: Timestamp) -> JobHead {
    JobHead {
        id: job.id,
        seq: 0,
        task: job.task.clone(),
        queue: job.queue.clone(),
        group: job.group.clone(),
        priority: job.priority,
        state: JobState::Waiting,
        due: Some(due),
        fence: Fence(0),
        crashes: 0,
        node: None,
        key: job.key.clone(),
        submitted_at: job.submitted_at,
        expires: None,
        args_bytes: 0,
        awaits: None,
    }
}

/// A node that is not there.
fn stand_in(tasks: BTreeSet<TaskName>, now: Timestamp) -> Node {
    Node {
        incarnation: Incarnation(uuid::Uuid::nil()),
        name: NodeName::stored("stand-in".into()),
        host: Host {
            name: String::new(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 0,
            started: 0,
            version: None,
        },
        slots: STAND_IN_SLOTS,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks,
        joined_at: now,
        lease: std::time::Duration::from_secs(5),
        lease_until: Timestamp::MAX,
        lost: false,
        dispatcher: false,
    }
}
