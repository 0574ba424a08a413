//! What a seed stands for: nodes, settings, jobs, what people do, and what goes wrong.

use std::{collections::BTreeSet, time::Duration};

use turnwise_core::{
    After, GroupName, JobId, Json, KeyName, NewJob, NodeName, OnFailure, Priority, QueueName, RetryPolicy, TaskName,
    settings::{Concurrency, Fairness, GroupSettings, LimitSettings, OnError, QueueSettings, Settings, Weight},
};

use super::{
    chance::Chance,
    network::{Doom, Weather},
    task::{End, Step, TASKS},
};

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) settings: Settings,
    /// By time of submission.
    pub(crate) jobs: Vec<Submission>,
    /// By time.
    pub(crate) people: Vec<(Duration, Deed)>,
    /// By time.
    pub(crate) faults: Vec<(Duration, Fault)>,
    /// The network when nothing is wrong.
    pub(crate) weather: Weather,
    /// When everything is mended.
    pub(crate) mended: Duration,
    pub(crate) contest: Contest,
}

#[derive(Debug, Clone)]
pub(crate) struct NodePlan {
    pub(crate) name: NodeName,
    pub(crate) slots: u32,
    /// Slots it may open beyond those.
    pub(crate) more_slots: u32,
    pub(crate) queue_capacity: u32,
    pub(crate) batch_size: usize,
    /// Jobs it reads at a time when it begins to dispatch.
    pub(crate) page: u32,
    pub(crate) queues: Option<BTreeSet<QueueName>>,
    /// How many of the tasks it knows.
    pub(crate) tasks: usize,
    pub(crate) dispatch: bool,
    pub(crate) lease: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) await_termination: Duration,
    pub(crate) starts: Duration,
}

/// Jobs that one caller submits in one call.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    pub(crate) at: Duration,
    pub(crate) jobs: Vec<NewJob>,
    /// Of each job: how long after the submission it is due.
    pub(crate) delays: Vec<Option<Duration>>,
}

/// What a person does. Jobs are named by their number in the plan.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Cancel(usize),
    Retry(usize),
    /// Of the jobs that wait then, or are stuck, one by its number.
    Change {
        waiting: usize,
        change: Change,
    },
    PauseQueue(QueueName),
    ResumeQueue(QueueName),
    Limit(QueueName, Concurrency),
    Weigh(GroupName, Weight),
}

/// What a person changes of a job.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) priority: Option<Priority>,
    pub(crate) queue: Option<QueueName>,
    /// Due after this long.
    pub(crate) delay: Option<Duration>,
}

/// What goes wrong. Nodes are named by their number in the plan.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Kill {
        node: usize,
        back: Duration,
        /// It comes back on another machine: no node can see that the old process is gone.
        elsewhere: bool,
    },
    /// Killed right before or after the database does something for it.
    Doom {
        node: usize,
        doom: Doom,
        back: Duration,
    },
    /// Stopped in an orderly way, as for a deploy.
    Deploy {
        node: usize,
        back: Duration,
    },
    /// Stopped as by a debugger: it does nothing, and does not know.
    Freeze {
        node: usize,
        span: Duration,
    },
    /// Cut off from the database.
    Cut {
        node: usize,
        span: Duration,
    },
    Outage {
        span: Duration,
    },
    Storm {
        weather: Weather,
        span: Duration,
    },
    /// The database's clock is set forward or back.
    Jump {
        millis: i64,
    },
    /// Another server takes over, without the commits of the last `lost`, after a moment without any.
    Failover {
        lost: Duration,
        gap: Duration,
    },
}

/// Groups with more work than slots, without any fault: how much does each get?
#[derive(Debug, Clone)]
pub(crate) struct Contest {
    pub(crate) weights: Vec<Weight>,
    pub(crate) jobs: Vec<NewJob>,
}

pub(crate) fn contest_queue() -> QueueName {
    QueueName::default()
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        let chance = &mut chance;
        let mended = chance.millis(4_000, 25_000);
        let settings = settings(chance);
        let queues: Vec<QueueName> = settings.queues.keys().cloned().collect();
        let jobs = submissions(chance, &settings, mended);
        let count = jobs.iter().map(|submission| submission.jobs.len()).sum();
        let nodes = nodes(chance, &queues);
        let people = people(chance, &settings, count, mended);
        // A third of the runs have no faults.
        let calm = chance.says(0.3);
        let weather = weather(chance);
        let mut faults = if calm { Vec::new() } else { faults(chance, &nodes, mended) };
        if !calm && chance.says(0.25) {
            fail_over(chance, &mut faults, mended);
        }
        let contest = contest(chance);
        let mut jobs = jobs;
        tie(&mut Chance::new(seed, 5), &mut jobs);
        Self { seed, nodes, settings, jobs, people, faults, weather, mended, contest }
    }

    /// Whether commits are taken back, which only the memory store can do.
    pub(crate) fn fails_over(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::Failover { .. }))
    }

    /// Whether some of what the database did may be in no trace.
    pub(crate) fn leaves_gaps(&self) -> bool {
        !self.faults.is_empty()
    }
}

fn weather(chance: &mut Chance) -> Weather {
    let mut weather = Weather::fair(chance.between(0, 15));
    if chance.says(0.5) {
        weather.unheard = *chance.pick(&[0.1, 0.5, 1.0]);
    }
    if chance.says(0.3) {
        weather.doubled = 0.3;
    }
    weather
}

fn settings(chance: &mut Chance) -> Settings {
    let mut settings = Settings::default();
    let queues = chance.between(1, 4);
    for n in 0..queues {
        let mut queue = QueueSettings::default();
        match chance.between(0, 5) {
            0 | 1 => queue.concurrency = Concurrency::Serial,
            2 | 3 => queue.concurrency = Concurrency::AtMost(chance.count(1, 4)),
            _ => {}
        }
        if chance.says(0.2) {
            queue.per_node = Some(chance.count(1, 2));
        }
        if chance.says(0.2) {
            queue.fairness = Fairness::Turns;
        }
        if chance.says(0.1) {
            queue.rate = format!("{}/1s", chance.between(5, 50)).parse().ok();
        }
        queue.on_error = *chance.pick(&[OnError::Block, OnError::Block, OnError::Skip, OnError::Pause]);
        if n > 0 && chance.says(0.3) {
            queue.after = vec![queue_name(chance.between(0, n - 1))];
        }
        settings.queues.insert(queue_name(n), queue);
    }
    for n in 0..GROUPS {
        let mut group = GroupSettings::default();
        if chance.says(0.5) {
            group.weight = weight(chance);
        }
        if chance.says(0.2) {
            group.concurrency = Some(chance.count(1, 3));
        }
        settings.groups.insert(group_name(n), group);
    }
    if chance.says(0.3) {
        let limit = LimitSettings { concurrency: Some(chance.count(1, 3)), rate: None };
        settings.tasks.insert(task_name(chance.index(TASKS.len())), limit);
    }
    for n in 0..KEYS {
        let limit = LimitSettings { concurrency: Some(chance.count(1, 2)), rate: None };
        settings.keys.insert(key_name(n), limit);
    }
    settings
}

const GROUPS: u64 = 5;
const KEYS: u64 = 2;

fn nodes(chance: &mut Chance, queues: &[QueueName]) -> Vec<NodePlan> {
    let count = chance.between(1, 4);
    let lease = chance.millis(1_500, 5_000);
    let node = |chance: &mut Chance, n: u64| {
        // The first one serves everything, so that whatever is left can end.
        let (queues, tasks) = if n > 0 && chance.says(0.3) {
            (Some(BTreeSet::from([chance.pick(queues).clone()])), chance.index(TASKS.len()) + 1)
        } else {
            (None, TASKS.len())
        };
        NodePlan {
            name: NodeName::new(format!("n{n}")).expect("a good name"),
            slots: chance.count(1, 4),
            more_slots: chance.count(0, 3),
            queue_capacity: chance.count(0, 8),
            batch_size: *chance.pick(&[1, 3, 16, 1_000]),
            page: *chance.pick(&[1, 7, 30, 1_000]),
            queues,
            tasks,
            dispatch: n == 0 || chance.says(0.8),
            lease,
            poll_interval: chance.millis(100, 1_000),
            cancel_grace: chance.millis(50, 500),
            await_termination: chance.millis(0, 2_000),
            starts: chance.millis(0, 1_000),
        }
    };
    (0..count).map(|n| node(chance, n)).collect()
}

fn submissions(chance: &mut Chance, settings: &Settings, mended: Duration) -> Vec<Submission> {
    let queues: Vec<&QueueName> = settings.queues.keys().collect();
    let last = u64::try_from(mended.as_millis()).unwrap_or(u64::MAX);
    let mut submissions = Vec::new();
    let mut number = 0;
    let waves = chance.between(1, 7);
    for _ in 0..waves {
        let queue = *chance.pick(&queues);
        let group = group_name(chance.between(0, GROUPS - 1));
        let at = chance.between(0, last);
        // A flood in one call, or a trickle of calls.
        let (calls, jobs, every) = if chance.says(0.5) {
            (1, chance.between(1, 40), 0)
        } else {
            (chance.between(1, 20), chance.between(1, 2), chance.between(1, 400))
        };
        let may_fail = chance.says(0.6);
        for call in 0..calls {
            let mut submission = Submission {
                at: Duration::from_millis((at + call * every).min(last)),
                jobs: Vec::new(),
                delays: Vec::new(),
            };
            for _ in 0..jobs {
                number += 1;
                let steps = steps(chance, may_fail);
                let mut job = job(chance, number, steps);
                job.queue = queue.clone();
                job.group = group.clone();
                submission.jobs.push(job);
                submission.delays.push(chance.says(0.1).then(|| chance.millis(1, 4_000)));
            }
            submissions.push(submission);
        }
    }
    submissions.sort_by_key(|submission| submission.at);
    submissions
}

/// Some jobs wait for others of the same call: a call that names one that is not there would be refused.
fn tie(chance: &mut Chance, submissions: &mut [Submission]) {
    for submission in submissions.iter_mut().filter(|submission| submission.jobs.len() > 1) {
        if chance.says(0.6) {
            continue;
        }
        let ids: Vec<JobId> = submission.jobs.iter().map(|job| job.id).collect();
        // In one direction, so that there is no circle: each waits for some that come before it, or after.
        let forward = chance.says(0.5);
        for (at, job) in submission.jobs.iter_mut().enumerate() {
            let others = if forward { &ids[..at] } else { &ids[at + 1..] };
            if others.is_empty() || chance.says(0.5) {
                continue;
            }
            let after: Vec<JobId> = (0..chance.between(1, 4)).map(|_| *chance.pick(others)).collect();
            job.after = After::new(after, *chance.pick(&OnFailure::ALL)).expect("a few");
        }
    }
}

fn job(chance: &mut Chance, number: u64, steps: Vec<Step>) -> NewJob {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&chance.number().to_be_bytes());
    let task = task_name(chance.index(TASKS.len()));
    let args = Json::encode("args", &steps).expect("plain numbers");
    let mut job = NewJob::new(JobId::from_parts(number, random), task, args);
    job.priority = Priority::new(i64::from(chance.count(1, 10))).expect("1 to 10");
    let waits = chance.between(0, 3);
    job.retry = Some(match chance.between(0, 9) {
        0 => RetryPolicy::Manual,
        1 => RetryPolicy::None,
        _ => RetryPolicy::durations((0..waits.max(1)).map(|_| chance.millis(1, 800)).collect()).expect("a few waits"),
    });
    if chance.says(0.15) {
        job.key = Some(key_name(chance.between(0, KEYS - 1)));
    }
    job
}

fn steps(chance: &mut Chance, may_fail: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let millis = |chance: &mut Chance| match chance.between(0, 9) {
        0 => chance.between(500, 3_000),
        1..=3 => chance.between(0, 3),
        _ => chance.between(3, 150),
    };
    while may_fail && steps.len() < 4 && chance.says(0.3) {
        let wait = chance.between(1, 1_000);
        let end = *chance.pick(&[End::Error, End::Error, End::Panic, End::Fail, End::Snooze(wait)]);
        steps.push(Step { millis: millis(chance), end });
    }
    let end = *chance.pick(&[End::Done, End::Result, End::Heeds]);
    steps.push(Step { millis: millis(chance), end });
    steps
}

fn people(chance: &mut Chance, settings: &Settings, jobs: usize, mended: Duration) -> Vec<(Duration, Deed)> {
    let queues: Vec<&QueueName> = settings.queues.keys().collect();
    let last = u64::try_from(mended.as_millis()).unwrap_or(u64::MAX);
    let mut deeds = Vec::new();
    for _ in 0..chance.between(0, 12) {
        let at = chance.millis(0, last);
        let queue = (*chance.pick(&queues)).clone();
        match chance.between(0, 13) {
            0..=3 => deeds.push((at, Deed::Cancel(chance.index(jobs)))),
            4..=5 => deeds.push((at, Deed::Retry(chance.index(jobs)))),
            10..=13 => {
                for _ in 0..chance.between(1, 6) {
                    let priority = Priority::new(i64::from(chance.count(1, 10))).ok().filter(|_| chance.says(0.4));
                    let delay = chance.says(0.4).then(|| chance.millis(0, 3_000));
                    let queue = chance.says(0.6).then(|| (*chance.pick(&queues)).clone());
                    let change = Change { priority, queue, delay };
                    deeds.push((at, Deed::Change { waiting: chance.index(jobs), change }));
                }
            }
            6..=7 => {
                deeds.push((at, Deed::PauseQueue(queue.clone())));
                deeds.push((at + chance.millis(100, 5_000), Deed::ResumeQueue(queue)));
            }
            8 => {
                // Never from or to serial: what has begun before such a change does not stop.
                let limit = match settings.queues[&queue].concurrency {
                    Concurrency::Serial => Concurrency::Serial,
                    _ => Concurrency::AtMost(chance.count(1, 4)),
                };
                deeds.push((at, Deed::Limit(queue, limit)));
            }
            _ => deeds.push((at, Deed::Weigh(group_name(chance.between(0, GROUPS - 1)), weight(chance)))),
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

fn faults(chance: &mut Chance, nodes: &[NodePlan], mended: Duration) -> Vec<(Duration, Fault)> {
    let lease = nodes[0].lease;
    let part = |chance: &mut Chance, low: f64, high: f64| {
        let part = low + (high - low) * f64::from(chance.count(0, 1_000)) / 1_000.0;
        lease.mul_f64(part)
    };
    let last = u64::try_from(mended.as_millis()).unwrap_or(u64::MAX);
    let mut faults = Vec::new();
    for _ in 0..chance.between(1, 9) {
        let node = chance.index(nodes.len());
        let back = chance.millis(10, 4_000);
        let fault = match chance.between(0, 12) {
            0 | 10 => Fault::Kill { node, back, elsewhere: chance.says(0.3) },
            1..=3 => {
                let verb =
                    *chance.pick(&["assign", "settle", "beat", "join", "news", "lost_nodes", "remember", "leave"]);
                Fault::Doom { node, doom: Doom { verb, after: chance.says(0.6) }, back }
            }
            4 => Fault::Deploy { node, back },
            5 | 11 => Fault::Freeze { node, span: part(chance, 0.2, 3.0) },
            6 => Fault::Cut { node, span: part(chance, 0.2, 2.5) },
            7 => Fault::Outage { span: part(chance, 0.1, 2.0) },
            8 => {
                let millis = i64::try_from(chance.between(0, 8_000)).unwrap_or(0) - 3_000;
                // Every third one by many leases.
                Fault::Jump { millis: if millis % 3 == 0 { millis * 20 } else { millis } }
            }
            _ => {
                let mut weather = Weather::fair(chance.between(0, 80));
                weather.lost = *chance.pick(&[0.0, 0.1, 0.3]);
                weather.unanswered = *chance.pick(&[0.0, 0.1, 0.3]);
                weather.late = *chance.pick(&[0.0, 0.05, 0.2]);
                weather.unheard = 0.5;
                weather.doubled = 0.2;
                Fault::Storm { weather, span: chance.millis(500, 6_000) }
            }
        };
        faults.push((chance.millis(0, last), fault));
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn fail_over(chance: &mut Chance, faults: &mut Vec<(Duration, Fault)>, mended: Duration) {
    let last = u64::try_from(mended.as_millis()).unwrap_or(u64::MAX);
    // A submit that arrives after its sender gave up could bring back a job that its queue was sealed without.
    for (_, fault) in faults.iter_mut() {
        if let Fault::Storm { weather, .. } = fault {
            weather.late = 0.0;
        }
    }
    for _ in 0..chance.between(1, 2) {
        let fault = Fault::Failover { lost: chance.millis(1, 3_000), gap: chance.millis(0, 1_500) };
        faults.push((chance.millis(500, last), fault));
    }
    faults.sort_by_key(|(at, _)| *at);
}

fn contest(chance: &mut Chance) -> Contest {
    let weights: Vec<Weight> = (0..chance.between(2, 4)).map(|_| weight(chance)).collect();
    let mut jobs = Vec::new();
    for (group, _) in weights.iter().enumerate() {
        let longest = *chance.pick(&[5, 40, 200]);
        for _ in 0..40 {
            let step = Step { millis: chance.between(1, longest), end: End::Done };
            let mut job = job(chance, 1_000 + jobs.len() as u64, vec![step]);
            job.task = task_name(0);
            job.group = contestant(group);
            job.queue = contest_queue();
            (job.key, job.priority) = (None, Priority::default());
            jobs.push(job);
        }
    }
    Contest { weights, jobs }
}

fn weight(chance: &mut Chance) -> Weight {
    let weight = *chance.pick(&[0.5, 1.0, 1.0, 2.0, 5.0]);
    Weight::try_from(weight).expect("within the range")
}

pub(crate) fn contestant(n: usize) -> GroupName {
    GroupName::new(format!("c{n}")).expect("a good name")
}

fn queue_name(n: u64) -> QueueName {
    QueueName::new(format!("q{n}")).expect("a good name")
}

fn group_name(n: u64) -> GroupName {
    GroupName::new(format!("g{n}")).expect("a good name")
}

fn key_name(n: u64) -> KeyName {
    KeyName::new(format!("k{n}")).expect("a good name")
}

fn task_name(n: usize) -> TaskName {
    TaskName::new(TASKS[n]).expect("a good name")
}
