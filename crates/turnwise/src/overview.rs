//! How much there is, by queue, group, task and key, beside what is set for them.

use std::collections::{BTreeMap, BTreeSet};

use turnwise_core::{
    GroupName, JobHead, JobId, JobState, KeyName, Node, QueueName, TaskName, Timestamp,
    queue_state::is_finished,
    scheduler::{Input, Scheduler},
    settings::{Concurrency, GroupSettings, LimitSettings, QueueSettings},
    turn::Charge,
};
use turnwise_store::{Load, MemoKind, Store, memo};

pub use turnwise_core::queue_state::QueueState;

use crate::{Error, Turnwise};

/// Jobs per page while the backlog is read.
const PAGE: u32 = 10_000;

/// Unfinished jobs by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// They wait for their time, their turn or other jobs.
    pub waiting: usize,
    /// They are in a node's hands and have not begun.
    pub scheduled: usize,
    /// A node runs them.
    pub running: usize,
    /// They failed and wait for their next attempt, or for a decision.
    pub stuck: usize,
}

impl Tally {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add(&mut self, state: JobState) {
        match state {
            JobState::Waiting => self.waiting += 1,
            JobState::Scheduled => self.scheduled += 1,
            JobState::Running => self.running += 1,
            JobState::Stuck => self.stuck += 1,
            JobState::Success | JobState::Failed | JobState::Cancelled => {}
        }
    }
}

/// A queue: what is set for it, and its unfinished jobs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct QueueOverview {
    /// What is set for it.
    pub settings: QueueSettings,
    /// Its unfinished jobs.
    pub jobs: Tally,
    /// In a serial queue: the first job, and its task, if no live node knows that task. Nothing behind it starts.
    pub held_by: Option<(JobId, TaskName)>,
}

/// A group: what is set for it, its unfinished jobs in all queues, and what it has used.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GroupOverview {
    /// What is set for it.
    pub settings: GroupSettings,
    /// Its unfinished jobs.
    pub jobs: Tally,
    /// What it has used beyond its turn, in the queue where that is most; up to a second old.
    pub ahead: Charge,
}

/// A task, or a key that jobs share: what is set for it, and its unfinished jobs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LimitOverview {
    /// What is set for it.
    pub settings: LimitSettings,
    /// Its unfinished jobs.
    pub jobs: Tally,
    /// Living nodes that know the task; none for a key.
    pub nodes: usize,
}

/// Every queue, group, task and key that has something set, or jobs, or (groups) a charge, or (tasks) a living node that knows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Overview {
    /// The database's time of the count.
    pub now: Timestamp,
    /// By name.
    pub queues: BTreeMap<QueueName, QueueOverview>,
    /// By name.
    pub groups: BTreeMap<GroupName, GroupOverview>,
    /// By name.
    pub tasks: BTreeMap<TaskName, LimitOverview>,
    /// By name.
    pub keys: BTreeMap<KeyName, LimitOverview>,
    /// There are more jobs than were to be counted: each count is the least that there are, and queues or groups may be missing
    /// that have nothing set. Jobs in nodes' hands are counted all the same. No queue is taken for finished then.
    pub more: bool,
}

impl Overview {
    /// What a queue is doing; one that is not in the overview is active.
    pub fn state(&self, name: &QueueName) -> QueueState {
        let left = |queue: &QueueOverview| self.more || queue.jobs != Tally::default();
        let finished =
            |name: &QueueName| self.queues.get(name).is_some_and(|queue| is_finished(&queue.settings, left(queue)));
        let queue = self.queues.get(name);
        queue.map_or(QueueState::Active, |queue| QueueState::of(&queue.settings, left(queue), finished))
    }
}

impl Turnwise {
    /// Counts the unfinished jobs: one walk over all of them, page by page, which takes seconds for millions.
    pub async fn overview(&self) -> Result<Overview, Error> {
        self.overview_within(usize::MAX).await
    }

    /// As [`Turnwise::overview`], of the oldest `jobs` unfinished jobs: it takes no longer however many there are.
    ///
    /// No store keeps counts by queue: they would be one more write for each job that is submitted, assigned or settled. So of a larger
    /// backlog each count is a lower bound, which [`Overview::more`] says.
    pub async fn overview_within(&self, jobs: usize) -> Result<Overview, Error> {
        self.count(jobs, |_| true).await
    }

    /// As [`Turnwise::overview_within`], and of the jobs that are looked at only those count whose queue, group and task `covers` allows:
    /// for a caller that may not see the others. Which job holds up a serial queue is not told then.
    pub async fn overview_of(
        &self,
        jobs: usize,
        covers: impl Fn(&QueueName, &GroupName, &TaskName) -> bool,
    ) -> Result<Overview, Error> {
        let mut overview = self.count(jobs, |head| covers(&head.queue, &head.group, &head.task)).await?;
        overview.queues.values_mut().for_each(|queue| queue.held_by = None);
        Ok(overview)
    }

    async fn count(&self, jobs: usize, counts: impl Fn(&JobHead) -> bool) -> Result<Overview, Error> {
        let store = self.store();
        let kinds = memo::SETTINGS.into_iter().chain([MemoKind::Charge]).collect();
        let memos = store.recall(kinds).await?;
        let set = memo::settings(&memos);
        let mut queues: BTreeMap<_, QueueOverview> = BTreeMap::new();
        let mut groups: BTreeMap<_, GroupOverview> = BTreeMap::new();
        for (name, settings) in set.queues {
            queues.entry(name).or_default().settings = settings;
        }
        for (name, settings) in set.groups {
            groups.entry(name).or_default().settings = settings;
        }
        let mut tasks: BTreeMap<_, LimitOverview> = BTreeMap::new();
        let mut keys: BTreeMap<_, LimitOverview> = BTreeMap::new();
        for (name, settings) in set.tasks {
            tasks.entry(name).or_default().settings = settings;
        }
        for (name, settings) in set.keys {
            keys.entry(name).or_default().settings = settings;
        }
        let fleet = store.nodes().await?;
        for task in fleet.nodes.iter().filter(|node| node.alive(fleet.now)).flat_map(|node| &node.tasks) {
            tasks.entry(task.clone()).or_default().nodes += 1;
        }
        for charge in memo::charges(&memos) {
            let group = groups.entry(charge.group).or_default();
            group.ahead = group.ahead.max(charge.ahead);
        }
        // Only these can be held by their first job, and which one that is, the scheduler knows.
        let serial: BTreeSet<QueueName> = queues
            .iter()
            .filter(|(_, queue)| queue.settings.concurrency == Concurrency::Serial)
            .map(|(name, _)| name.clone())
            .collect();
        let mut lines = Vec::new();
        let mut count = |head: JobHead| {
            if !counts(&head) {
                return;
            }
            queues.entry(head.queue).or_default().jobs.add(head.state);
            groups.entry(head.group).or_default().jobs.add(head.state);
            tasks.entry(head.task).or_default().jobs.add(head.state);
            if let Some(key) = head.key {
                keys.entry(key).or_default().jobs.add(head.state);
            }
        };
        let mut left = jobs.max(1);
        let mut after = None;
        let (now, more) = loop {
            let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
            let page = store.load(Load::After { id: after, limit }).await?;
            left = left.saturating_sub(page.jobs.len());
            let last = page.jobs.last().map(|head| head.id);
            for head in page.jobs {
                if serial.contains(&head.queue) {
                    lines.push(head.clone());
                }
                count(head);
            }
            match page.next {
                None => break (page.now, false),
                Some(_) if left == 0 => {
                    // A page that is full may still be the last.
                    let beyond = store.load(Load::After { id: page.next, limit: 1 }).await?;
                    // Nodes have no more than they may hold, and what they do is what a person looks for.
                    if !beyond.jobs.is_empty() {
                        let in_hands = store.load(Load::InHands(None)).await?.jobs;
                        in_hands.into_iter().filter(|head| Some(head.id) > last).for_each(&mut count);
                    }
                    break (beyond.now, !beyond.jobs.is_empty());
                }
                next => after = next,
            }
        };
        // Where not all jobs were looked at, the first in line may be another one.
        if !lines.is_empty() && !more {
            let nodes = store.nodes().await?.nodes.into_iter().filter(|node| node.alive(now));
            let nodes = nodes.map(|node| Node { slots: 0, queue_capacity: 0, ..node }).collect();
            let mut scheduler = Scheduler::new(1);
            for input in [Input::Nodes(nodes), Input::Settings(memo::settings(&memos)), Input::Jobs(lines)] {
                scheduler.handle(now, input);
            }
            for (queue, job, task) in scheduler.held_lines() {
                queues.entry(queue).or_default().held_by = Some((job, task));
            }
        }
        Ok(Overview { now, queues, groups, tasks, keys, more })
    }
}

/// Hands over all unfinished jobs, page by page; the database's time of the last page.
pub(crate) async fn each_page(store: &dyn Store, mut take: impl FnMut(Vec<JobHead>)) -> Result<Timestamp, Error> {
    let mut after: Option<JobId> = None;
    loop {
        let page = store.load(Load::After { id: after, limit: PAGE }).await?;
        take(page.jobs);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(page.now),
        }
    }
}
