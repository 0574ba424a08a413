//! How much there is, by queue, group, task and key, beside what is set for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{
    GroupName, JobHead, JobId, JobState, KeyName, Node, QueueName, TaskName, Timestamp,
    queue_state::is_finished,
    remaining::is_for_later,
    scheduler::{Input, Scheduler},
    settings::{Concurrency, GroupSettings, LimitSettings, QueueSettings, Settings},
    totals::HeldLine,
    turn::Charge,
};
use turnwise_store::{Fleet, Load, MemoKind, Store, WrittenTotals, memo};

pub use turnwise_core::{queue_state::QueueState, totals::Tally};

use crate::{Error, Turnwise};

/// Jobs per page while the backlog is read.
const PAGE: u32 = 10_000;
/// What the dispatcher wrote is used for so long: it writes every second while it is asked.
const FRESH: Duration = Duration::from_secs(3);
/// How long the first to ask waits for the dispatcher to write.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// First and longest pause between two looks whether it has.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_LONGEST: Duration = Duration::from_millis(200);
/// A dispatcher that has not written in time is not waited for again before this: it may be of an older version.
const SILENT_FOR: Duration = Duration::from_secs(30);

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
    /// Since when the waiting job has been due that has waited longest; `None`: none is due.
    pub oldest: Option<Timestamp>,
}

/// A group: what is set for it, its unfinished jobs in all queues, and what it has used.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GroupOverview {
    /// What is set for it.
    pub settings: GroupSettings,
    /// Its unfinished jobs.
    pub jobs: Tally,
    /// How many of those that wait cannot start now, whatever is free: they are not due, wait for other jobs, or a gate of the queue
    /// or the group is shut. Counted among the jobs that were looked at: where the
    /// dispatcher counted, there may be more.
    pub later: usize,
    /// Since when the waiting job has been due that has waited longest, of those that were looked at; `None`: none is due.
    pub oldest: Option<Timestamp>,
    /// What it has used beyond its turn, in the queue where that is most; up to a second old.
    pub ahead: Charge,
    /// The counts are lower bounds: the dispatcher does not count this group by itself.
    pub at_least: bool,
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
    /// All unfinished jobs that were counted.
    pub all: Tally,
    /// When they were counted, by the database's clock: now, or when the dispatcher last wrote how much there is.
    pub counted_at: Timestamp,
    /// How many groups there are, those without a name here included.
    pub groups_in_all: usize,
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

impl Overview {
    /// Whether there may be groups with jobs that have no name here, or more jobs than were counted.
    pub fn is_partial(&self) -> bool {
        self.more || self.groups_in_all > self.groups.len()
    }
}

impl Turnwise {
    /// Counts the unfinished jobs: one walk over all of them, page by page, which takes seconds for millions.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn overview(&self) -> Result<Overview, Error> {
        self.overview_within(usize::MAX).await
    }

    /// As [`Turnwise::overview`], of the oldest `jobs` unfinished jobs: it takes no longer however many there are.
    ///
    /// No store keeps counts by queue: they would be one more write for each job that is submitted, assigned or settled. So of a larger
    /// backlog each count is a lower bound, which [`Overview::more`] says.
    ///
    /// Fails as [`Turnwise::overview`] does.
    pub async fn overview_within(&self, jobs: usize) -> Result<Overview, Error> {
        self.count(jobs, |_| true, false).await
    }

    /// As [`Turnwise::overview_within`], but if there are more than 10,000 jobs the dispatcher is asked, which knows how many there are:
    /// exact, a second or two old ([`Overview::counted_at`]), and no slower with millions. Of the groups it names the 200 largest;
    /// the others are counted among the oldest jobs, and say so ([`GroupOverview::at_least`]).
    ///
    /// The first call waits up to a second and a half until the dispatcher has written the numbers down; it goes on writing them for as
    /// long as it is asked. If none does, `jobs` of them are counted.
    ///
    /// Fails as [`Turnwise::overview`] does. That no dispatcher answers is no error.
    pub async fn overview_by_dispatcher(&self, jobs: usize) -> Result<Overview, Error> {
        self.count(jobs, |_| true, true).await
    }

    /// As [`Turnwise::overview_within`], and of the jobs that are looked at only those count whose queue, group and task `covers` allows:
    /// for a caller that may not see the others. The job that blocks a serial queue is left out then.
    ///
    /// Fails as [`Turnwise::overview`] does.
    pub async fn overview_of(
        &self,
        jobs: usize,
        covers: impl Fn(&QueueName, &GroupName, &TaskName) -> bool,
    ) -> Result<Overview, Error> {
        let mut overview = self.count(jobs, |head| covers(&head.queue, &head.group, &head.task), false).await?;
        overview.queues.values_mut().for_each(|queue| queue.held_by = None);
        Ok(overview)
    }

    async fn count(&self, jobs: usize, counts: impl Fn(&JobHead) -> bool, ask: bool) -> Result<Overview, Error> {
        let store = self.store();
        let set = memo::settings(&store.recall(memo::SETTINGS.to_vec()).await?);
        let fleet = store.nodes().await?;
        let mut counting = Counting::new(set, &fleet);
        let mut left = jobs.max(1);
        let mut after = None;
        let (now, more) = loop {
            let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
            let page = store.load(Load::After { id: after, limit }).await?;
            left = left.saturating_sub(page.jobs.len());
            let last = page.jobs.last().map(|head| head.id);
            page.jobs.into_iter().for_each(|head| counting.look(head, &counts));
            match page.next {
                None => break (page.now, false),
                Some(_)
                    if ask
                        && after.is_none()
                        && let Some(told) = self.told_totals(&fleet).await =>
                {
                    return Ok(counting.told(page.now, told));
                }
                Some(_) if left == 0 => {
                    // A page that is full may still be the last.
                    let beyond = store.load(Load::After { id: page.next, limit: 1 }).await?;
                    // Nodes have no more than they may hold, and what they do is what a person looks for.
                    if !beyond.jobs.is_empty() {
                        let in_hands = store.load(Load::InHands(None)).await?.jobs;
                        let beyond_last = in_hands.into_iter().filter(|head| Some(head.id) > last);
                        beyond_last.for_each(|head| counting.count(head, &counts));
                    }
                    break (beyond.now, !beyond.jobs.is_empty());
                }
                next => after = next,
            }
        };
        // Where not all jobs were looked at, the first in line may be another one.
        if !counting.lines.is_empty() && !more {
            let living = store.nodes().await?.nodes.into_iter().filter(|node| node.alive(now));
            counting.find_held(now, living);
        }
        for charge in memo::charges(&store.recall(vec![MemoKind::Charge]).await?) {
            let group = counting.overview.groups.entry(charge.group).or_default();
            group.ahead = group.ahead.max(charge.ahead);
        }
        Ok(counting.looked(now, more))
    }

    /// What the dispatcher has written within the last seconds; it is asked to, and waited for.
    async fn told_totals(&self, fleet: &Fleet) -> Option<WrittenTotals> {
        let operators = self.backend().operators()?;
        let is_dispatched = fleet.nodes.iter().any(|node| node.dispatcher && node.alive(fleet.now));
        let (mut pause, deadline) = (LOOK_FIRST, Instant::now() + PATIENCE);
        loop {
            // A role that may not ask counts by itself; a database that is out of reach fails the next read.
            let found = operators.ask_totals().await.ok()?;
            if let Some(last) = found.last.filter(|last| found.now.since(last.at) <= FRESH) {
                return Some(last);
            }
            if !is_dispatched || self.silence.holds() {
                return None;
            }
            if Instant::now() >= deadline {
                self.silence.begin();
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_LONGEST);
        }
    }
}

/// Since when a dispatcher that was asked has written nothing.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Option<Instant>>);

impl Silence {
    fn holds(&self) -> bool {
        let since = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < SILENT_FOR)
    }

    fn begin(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
    }
}

/// An overview in the making.
struct Counting {
    overview: Overview,
    set: Settings,
    /// Only these queues can be held by their first job, and which one that is, the scheduler knows.
    serial: BTreeSet<QueueName>,
    /// Their jobs.
    lines: Vec<JobHead>,
}

impl Counting {
    /// What is set, and which tasks nodes know.
    fn new(set: Settings, fleet: &Fleet) -> Self {
        let mut overview = Overview {
            now: fleet.now,
            queues: BTreeMap::new(),
            groups: BTreeMap::new(),
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            all: Tally::default(),
            counted_at: fleet.now,
            groups_in_all: 0,
            more: false,
        };
        for (name, settings) in &set.queues {
            overview.queues.entry(name.clone()).or_default().settings = settings.clone();
        }
        for (name, settings) in &set.groups {
            overview.groups.entry(name.clone()).or_default().settings = settings.clone();
        }
        for (name, settings) in &set.tasks {
            overview.tasks.entry(name.clone()).or_default().settings = *settings;
        }
        for (name, settings) in &set.keys {
            overview.keys.entry(name.clone()).or_default().settings = *settings;
        }
        for task in fleet.nodes.iter().filter(|node| node.alive(fleet.now)).flat_map(|node| &node.tasks) {
            overview.tasks.entry(task.clone()).or_default().nodes += 1;
        }
        let is_serial = |queue: &QueueSettings| queue.concurrency == Concurrency::Serial;
        let serial = set.queues.iter().filter(|(_, queue)| is_serial(queue)).map(|(name, _)| name.clone()).collect();
        Self { overview, set, serial, lines: Vec::new() }
    }

    /// A job of a page.
    fn look(&mut self, head: JobHead, counts: impl Fn(&JobHead) -> bool) {
        if self.serial.contains(&head.queue) {
            self.lines.push(head.clone());
        }
        self.count(head, counts);
    }

    fn count(&mut self, head: JobHead, counts: impl Fn(&JobHead) -> bool) {
        if !counts(&head) {
            return;
        }
        let later = head.state == JobState::Waiting && is_for_later(&head, &self.set, self.overview.now);
        let Overview { queues, groups, tasks, keys, all, .. } = &mut self.overview;
        all.add(head.state);
        let queue = queues.entry(head.queue).or_default();
        queue.jobs.add(head.state);
        if head.state == JobState::Waiting {
            queue.oldest = queue.oldest.into_iter().chain(head.due).min();
        }
        let group = groups.entry(head.group).or_default();
        group.jobs.add(head.state);
        if head.state == JobState::Waiting {
            group.oldest = group.oldest.into_iter().chain(head.due).min();
        }
        group.later += usize::from(later);
        tasks.entry(head.task).or_default().jobs.add(head.state);
        if let Some(key) = head.key {
            keys.entry(key).or_default().jobs.add(head.state);
        }
    }

    /// Which serial queues are held up: all jobs of these have been looked at.
    fn find_held(&mut self, now: Timestamp, living: impl Iterator<Item = Node>) {
        let nodes = living.map(|node| Node { slots: 0, queue_capacity: 0, ..node }).collect();
        let (lines, set) = (std::mem::take(&mut self.lines), self.set.clone());
        let mut scheduler = Scheduler::new(1);
        for input in [Input::Nodes(nodes), Input::Settings(set), Input::Jobs(lines)] {
            scheduler.handle(now, input);
        }
        for (queue, job, task) in scheduler.held_lines() {
            self.overview.queues.entry(queue).or_default().held_by = Some((job, task));
        }
    }

    /// A job that is due later has not waited yet.
    fn keep_due(&mut self, now: Timestamp) {
        let Overview { queues, groups, .. } = &mut self.overview;
        let all = queues.values_mut().map(|queue| &mut queue.oldest);
        all.chain(groups.values_mut().map(|group| &mut group.oldest))
            .for_each(|oldest| *oldest = oldest.filter(|due| *due <= now));
    }

    /// What was counted by looking at jobs.
    fn looked(mut self, now: Timestamp, more: bool) -> Overview {
        self.keep_due(now);
        let groups_in_all = self.overview.groups.len();
        Overview { now, counted_at: now, more, groups_in_all, ..self.overview }
    }

    /// What the dispatcher counted, beside what was counted among the oldest jobs.
    fn told(mut self, now: Timestamp, WrittenTotals { at, totals }: WrittenTotals) -> Overview {
        self.keep_due(now);
        let Overview { mut queues, mut groups, mut tasks, mut keys, .. } = self.overview;
        let more = !totals.complete || !totals.names_all_but_groups();
        let every_group = totals.complete && totals.names_all_groups();
        groups.values_mut().for_each(|group| group.at_least = !every_group);
        for (name, jobs) in totals.queues {
            queues.entry(name).or_default().jobs = jobs;
        }
        for (name, jobs) in totals.tasks {
            tasks.entry(name).or_default().jobs = jobs;
        }
        for (name, jobs) in totals.keys {
            keys.entry(name).or_default().jobs = jobs;
        }
        for told in totals.groups {
            let group = groups.entry(told.name).or_default();
            (group.jobs, group.ahead, group.at_least) = (told.jobs, told.ahead, false);
            // They were counted at different moments.
            group.later = group.later.min(group.jobs.waiting);
        }
        for HeldLine { queue, job, task } in totals.held {
            queues.entry(queue).or_default().held_by = Some((job, task));
        }
        let idle = groups.values().filter(|group| group.jobs.is_empty()).count();
        let groups_in_all = (totals.known.groups + idle).max(groups.len());
        Overview { now, queues, groups, tasks, keys, all: totals.all, counted_at: at, groups_in_all, more }
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
