//! Which node runs which job: a value that takes in what happened and answers what to do.
//!
//! [`Scheduler::handle`] takes an [`Input`] and the database's time and returns [`Output`]s. It is a cache of the
//! store: everything it holds came from there, and a pick counts only once the store has confirmed it
//! ([`Input::Replied`]). If it is lost, only the charges since they were last stored are lost.
//!
//! Whose turn it is goes down a tree: queues by charge, then the queue's groups by charge, then the group's jobs (due
//! stuck ones, then the counting scheme). A closed gate takes its queue, group or job out of the tree once, and its
//! opening puts it back: what cannot run is not looked at again and again.
//!
//! What is known: `table` rows by name and index, `rows` queues, tasks and keys, `kinds` a queue and a task, `groups`
//! and `names` groups and their owners, `lanes` a group's ready jobs, `fleet` nodes, `flight` what is in their hands,
//! `times` what is due when, `hours` windows and schedules, `waits` jobs that wait for jobs, `suspects` jobs that run
//! alone.
//!
//! What is done with it: `arrive` jobs come and go, `expire` some too late → `set` what is set → `trees` which queues
//! share nodes → `line` which queues and groups stand in line, `turns` in which order → `gates` what is closed →
//! `choose` whose turn it is → `charge` what it costs → `tally` what happened, added up → `explain` why not yet, and
//! what comes next → `totals` how much there is → `follow` what another scheduler does → `remaining` whether a node has
//! anything to do at all.

mod arrive;
mod charge;
mod choose;
mod expire;
mod explain;
mod fleet;
mod flight;
mod follow;
mod gates;
mod groups;
mod hours;
mod kinds;
mod lanes;
mod remaining;
mod line;
mod names;
mod set;
mod suspects;
mod table;
mod tally;
mod rows;
mod times;
mod totals;
mod trees;
mod turns;
mod waits;

use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use crate::{
    backlog::{Backlog, Place, Slot},
    failure::Fingerprint,
    job::{Fence, JobHead, JobId},
    name::{GroupName, KeyName, QueueName, TaskName},
    node::{Incarnation, Node},
    queue_state::QueueState,
    settings::Settings,
    statistics::Counted,
    time::Timestamp,
    turn::{Charge, Served},
};

/// First and longest wait for a row that another transaction holds.
const LOCKED_FIRST: Duration = Duration::from_millis(20);
const LOCKED_LONGEST: Duration = Duration::from_secs(1);
/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// Rows as they stand: new, changed or read again.
    Jobs(Vec<JobHead>),
    /// Jobs that are no longer there.
    Gone(Vec<JobId>),
    /// The store has written how these left their nodes' hands.
    Settled(Vec<Settled>),
    /// The nodes that live; the others are gone.
    Nodes(Vec<Node>),
    /// All that is set.
    Settings(Settings),
    /// Charges as an earlier dispatcher remembered them.
    Charges(Vec<Remembered>),
    /// The store's replies to an [`Output::Assign`].
    Replied(Replies),
    /// The backlog is (not) being read: while it is, an empty scheduler does not mean an empty store, and serial queues
    /// stay closed.
    Loading(bool),
    /// Time has passed.
    Tick,
}

/// A job that left its node's hands.
#[derive(Debug, Clone)]
pub struct Settled {
    pub id: JobId,
    pub fence: Fence,
    /// How long it ran, if it did.
    pub ran: Option<Duration>,
    /// Where it rests; `None`: it has ended.
    pub rest: Option<Rest>,
    /// It ended as failed.
    pub failed: bool,
    /// It ended with success. If neither is set, it ended in another way, or it is not known how.
    pub well: bool,
    /// What went wrong in the run, if something did, or what ended the job without one.
    pub error: Option<Fingerprint>,
}

impl Settled {
    /// Whether this is an error of its queue, for which the queue may be set to pause.
    pub fn is_error(&self) -> bool {
        self.failed || self.rest.as_ref().is_some_and(|rest| rest.stuck)
    }

    fn counted(&self) -> Counted {
        match &self.rest {
            None if self.well => Counted::Success,
            None if self.failed || self.error.is_some() => Counted::Failed,
            None => Counted::Cancelled,
            Some(rest) if rest.stuck && rest.due.is_none() => Counted::Stuck,
            Some(rest) if rest.stuck || self.error.is_some() => Counted::Retried,
            Some(_) => Counted::Again,
        }
    }
}

/// An unfinished job out of a node's hands.
#[derive(Debug, Clone)]
pub struct Rest {
    pub stuck: bool,
    pub due: Option<Timestamp>,
    pub crashes: u32,
    /// It goes on as this task.
    pub next: Option<TaskName>,
}

/// A group's charge in a queue, as far as it is above the queue's virtual time: by so much its turn comes later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub queue: QueueName,
    pub group: GroupName,
    pub ahead: Charge,
    /// Picks so far, for the counting scheme.
    pub count: u32,
}

/// What became of picks, with the fence that each job was picked at. The fence is needed because a batch that gets no
/// reply is sent again, and when the reply comes its jobs may have been picked once more.
pub type Replies = Vec<(JobId, Fence, Reply)>;

/// What became of one pick.
#[derive(Debug, Clone)]
pub enum Reply {
    Assigned(Fence),
    /// Another transaction holds the row.
    Locked,
    /// It is not what it was when it was picked.
    Changed(JobHead),
    Gone,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Assign(Vec<Pick>),
    /// Pause this queue: a job of it failed, and it is set to pause then.
    Pause {
        queue: QueueName,
        job: JobId,
    },
    /// Read the whole backlog again, and then say that it is read ([`Input::Loading`]): a schedule was changed, and when a
    /// job was submitted is not kept here. Until then its queue starts nothing.
    ReadAgain,
    /// A job that these wait for has ended, and it is not known that it ended well: read them again, and end those whose
    /// [`Awaits`](crate::after::Awaits) say so. They are not picked any more, unless they come in anew by [`Input::Jobs`].
    Review(Vec<JobId>),
    /// These have not begun in time: end them. They are not picked any more, unless they come in anew by [`Input::Jobs`].
    Expire(Vec<JobId>),
    /// Call again at this time at the latest.
    WakeAt(Timestamp),
}

/// This job, as it was at this fence, to this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// The job to assign.
    pub job: JobId,
    /// What it was picked at: if its row has another fence by then, the store leaves it alone.
    pub fence: Fence,
    /// The node that gets it.
    pub node: Incarnation,
    /// Whether a limit counts it, or it stands in a serial line.
    pub limited: bool,
}

/// How much there is, by what holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// Could run now, or is on its way to a node.
    pub ready: usize,
    /// In the hands of nodes.
    pub in_flight: usize,
    /// Will be due by itself.
    pub future: usize,
    /// No live node can run them.
    pub unknown: usize,
    /// Stuck until a person decides.
    pub manual: usize,
    /// Wait for other jobs.
    pub awaiting: usize,
    pub loading: bool,
}

impl Pending {
    /// Nothing is left that time alone would bring to a node.
    pub fn drained(&self) -> bool {
        !self.loading && self.ready + self.in_flight + self.future == 0
    }
}
pub use explain::{Future, Start};
use fleet::Fleet;
use flight::Flights;
use groups::{Group, Groups, Owner, Owners};
use hours::Hours;
use kinds::Kinds;
use rows::{Extra, Limited, Queue};
use suspects::Suspects;
use table::Table;
use tally::Tallies;
use times::Times;
use totals::StuckByOwner;
use trees::Tree;
use waits::Waits;

#[derive(Debug, Clone)]
pub struct Scheduler {
    batch: usize,
    /// How many were picked when any were last picked.
    last_batch: usize,
    settings: Settings,
    /// The backlog is being read.
    loading: bool,
    backlog: Backlog,
    extras: HashMap<Slot, Extra>,
    queues: Table<QueueName, Queue>,
    tasks: Table<TaskName, Limited<TaskName>>,
    keys: Table<KeyName, Limited<KeyName>>,
    kinds: Kinds,
    groups: Groups,
    owners: Owners,
    fleet: Fleet,
    trees: Vec<Tree>,
    picks: Served,
    flights: Flights,
    charged_live: Timestamp,
    suspects: Suspects,
    times: Times,
    hours: Hours,
    waits: Waits,
    stuck: StuckByOwner,
    pauses: Vec<(QueueName, JobId)>,
    tallies: Tallies,
}

impl Scheduler {
    /// `batch` bounds the picks of one [`Output::Assign`], unless a node takes more at once ([`Node::batch_size`]).
    pub fn new(batch: usize) -> Self {
        Self {
            batch: batch.max(1),
            last_batch: 0,
            settings: Settings::default(),
            loading: false,
            backlog: Backlog::default(),
            extras: HashMap::new(),
            queues: Table::default(),
            tasks: Table::default(),
            keys: Table::default(),
            kinds: Kinds::default(),
            groups: Groups::default(),
            owners: Owners::default(),
            fleet: Fleet::default(),
            trees: vec![Tree::default()],
            picks: Served::default(),
            flights: Flights::default(),
            charged_live: Timestamp::MIN,
            suspects: Suspects::default(),
            times: Times::default(),
            hours: Hours::default(),
            waits: Waits::default(),
            stuck: StuckByOwner::new(),
            pauses: Vec::new(),
            tallies: Tallies::default(),
        }
    }

    /// Takes in what happened and returns what to do. Several [`Output::Assign`] may be in flight at a time; each is
    /// answered by an [`Input::Replied`].
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Vec<Output> {
        self.turn_minute(now);
        self.turn_windows(now);
        match input {
            Input::Jobs(heads) => heads.into_iter().for_each(|mut head| self.take_in(now, &mut head)),
            Input::Gone(ids) => ids.into_iter().for_each(|id| self.forget(now, id)),
            Input::Settled(settled) => settled.into_iter().for_each(|settled| self.settle(now, settled)),
            Input::Nodes(nodes) => self.see_nodes(now, nodes),
            Input::Settings(settings) => {
                self.note_schedules(&settings);
                self.see_settings(now, settings);
                self.watch_windows(now);
            }
            Input::Charges(charges) => charges.into_iter().for_each(|charge| self.recall(now, charge)),
            Input::Replied(replies) => {
                replies.into_iter().for_each(|(id, fence, reply)| self.reply(now, id, fence, reply))
            }
            Input::Loading(loading) => {
                self.loading = loading;
                self.refresh_queues_that_wait(now);
                if !loading {
                    self.trust_schedules(now);
                }
            }
            Input::Tick => {}
        }
        let expired = self.expire(now);
        self.ring_alarms(now);
        self.release_due(now);
        self.charge_long_runs(now);
        let picks = self.pick_batch(now);
        let mut outputs: Vec<_> =
            std::mem::take(&mut self.pauses).into_iter().map(|(queue, job)| Output::Pause { queue, job }).collect();
        let review = self.waits.take_review();
        if !review.is_empty() {
            outputs.push(Output::Review(review));
        }
        if !expired.is_empty() {
            outputs.push(Output::Expire(expired));
        }
        if !picks.is_empty() {
            outputs.push(Output::Assign(picks));
        }
        if self.hours.take_read_again() {
            outputs.push(Output::ReadAgain);
        }
        if let Some(at) = self.next_time(now) {
            outputs.push(Output::WakeAt(at));
        }
        outputs
    }

    /// As [`Input::Replied`], but returns nothing to do: that comes with the next input.
    pub fn hear(&mut self, now: Timestamp, replies: Replies) {
        replies.into_iter().for_each(|(id, fence, reply)| self.reply(now, id, fence, reply));
    }

    fn next_time(&self, now: Timestamp) -> Option<Timestamp> {
        self.next_event(now).into_iter().chain(self.hours.next_turn()).min()
    }

    /// As [`Scheduler::next_time`], without the windows, which begin and end for ever.
    fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        self.times.next(&self.backlog).into_iter().chain(self.next_suspect(now)).min()
    }

    /// Counts by what holds the jobs. Walks all of them: for tests, overviews and the end of a drain, not for the hot path.
    pub fn pending(&self) -> Pending {
        let mut pending = Pending { loading: self.loading, ..Pending::default() };
        for slot in self.backlog.slots() {
            let count = match self.backlog.place(slot) {
                Place::Assigned => &mut pending.in_flight,
                Place::Manual if self.waits.reviewed(self.backlog.id(slot)) => &mut pending.ready,
                Place::Manual if self.waits.holds(self.backlog.id(slot)) => &mut pending.awaiting,
                Place::Manual => &mut pending.manual,
                _ if !self.kinds[self.backlog.kind(slot)].runnable() => &mut pending.unknown,
                Place::Future => &mut pending.future,
                Place::Ready | Place::Reserved | Place::Picked | Place::Parked => &mut pending.ready,
                Place::Dead => continue,
            };
            *count += 1;
        }
        pending
    }

    /// How many unfinished jobs the scheduler knows.
    pub fn len(&self) -> usize {
        self.backlog.len()
    }

    /// Whether the scheduler knows of no unfinished job at all.
    pub fn is_empty(&self) -> bool {
        self.backlog.len() == 0 && !self.loading
    }

    /// Every queue that is known, with its state and what it waits for.
    pub fn queue_states(&self) -> Vec<(QueueName, QueueState)> {
        let finished = |name: &QueueName| self.is_finished(name);
        let state = |queue: &Queue| QueueState::of(&queue.settings, queue.jobs > 0 || self.loading, finished);
        self.queues.iter().map(|queue| (queue.name.clone(), state(queue))).collect()
    }

    /// Groups with a limit on waiting jobs: how many wait, and the limit.
    pub fn admissions(&self) -> Vec<(GroupName, u32, u32)> {
        let limit = |owner: &Owner| {
            let limit = owner.special.as_ref()?.settings.max_waiting?;
            Some((self.owners.name(owner), owner.jobs - owner.in_flight, limit))
        };
        self.owners.iter().filter_map(limit).collect()
    }

    /// Charges that are above their queue's virtual time: the next dispatcher must know them. All other groups begin at the
    /// virtual time anyway.
    pub fn charges(&self) -> Vec<Remembered> {
        let above = |group: &Group| {
            let queue = &self.queues[group.queue];
            let ahead = group.account.charge.minus(queue.now);
            // The group's place in its counting scheme matters as long as it has ready jobs.
            let count = if group.lanes.is_empty() { 0 } else { group.count };
            (ahead > Charge::default() || count > 0).then(|| Remembered {
                queue: queue.name.clone(),
                group: self.owners.name(&self.owners[group.owner]),
                ahead,
                count,
            })
        };
        self.groups.iter().filter_map(above).collect()
    }
}
