//! How much there is, by queue and by group, beside what is set for them.

use std::collections::BTreeMap;

use turnwise_core::{
    GroupName, JobHead, JobId, JobState, QueueName, Timestamp,
    queue_state::is_finished,
    settings::{GroupSettings, QueueSettings},
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

/// Every queue and group that has something set, or jobs, or (groups) a charge.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Overview {
    /// The database's time of the count.
    pub now: Timestamp,
    /// By name.
    pub queues: BTreeMap<QueueName, QueueOverview>,
    /// By name.
    pub groups: BTreeMap<GroupName, GroupOverview>,
}

impl Overview {
    /// What a queue is doing; one that is not in the overview is active.
    pub fn state(&self, name: &QueueName) -> QueueState {
        let left = |queue: &QueueOverview| queue.jobs != Tally::default();
        let finished =
            |name: &QueueName| self.queues.get(name).is_some_and(|queue| is_finished(&queue.settings, left(queue)));
        let queue = self.queues.get(name);
        queue.map_or(QueueState::Active, |queue| QueueState::of(&queue.settings, left(queue), finished))
    }
}

impl Turnwise {
    /// Counts the unfinished jobs: one walk over all of them, page by page.
    pub async fn overview(&self) -> Result<Overview, Error> {
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
        for charge in memo::charges(&memos) {
            let group = groups.entry(charge.group).or_default();
            group.ahead = group.ahead.max(charge.ahead);
        }
        let now = each_page(&*store, |heads| {
            for head in heads {
                queues.entry(head.queue).or_default().jobs.add(head.state);
                groups.entry(head.group).or_default().jobs.add(head.state);
            }
        })
        .await?;
        Ok(Overview { now, queues, groups })
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
