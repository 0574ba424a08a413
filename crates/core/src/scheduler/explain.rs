//! Explaining: why a job was not chosen yet, and what comes next, from the same tables that choosing uses.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use super::{
    Input, Output, Pick, Reply, Scheduler, Settled,
    gates::{Closed, Keeper},
    table::Index,
};
use crate::{
    Fence,
    backlog::{Place, Slot},
    calendar::Schedule,
    job::JobId,
    lifecycle::ALONE_CRASHES,
    name::{GroupName, QueueName, TaskName},
    time::Timestamp,
    why::{Forecast, Gate, Whose, Why},
};

impl Scheduler {
    /// Why a job does not run: every closed gate, and the forecast. `None`: the scheduler does not know the job.
    /// `steps` bounds how many starts the forecast looks ahead.
    pub fn why(&self, now: Timestamp, id: JobId, steps: usize) -> Option<Why> {
        let slot = self.backlog.find(id)?;
        let gates = self.gates_of(now, slot);
        let waits = !matches!(self.backlog.place(slot), Place::Picked | Place::Assigned);
        let forecast = waits.then(|| self.forecast(now, id, steps)).flatten();
        Some(Why { gates, forecast })
    }

    fn gates_of(&self, now: Timestamp, slot: Slot) -> Vec<Gate> {
        let mut gates = Vec::new();
        let place = self.backlog.place(slot);
        if matches!(place, Place::Picked | Place::Assigned) {
            return gates;
        }
        let extra = self.extras.get(&slot).copied().unwrap_or_default();
        match place {
            Place::Manual if self.waits.holds(self.backlog.id(slot)) => {
                gates.extend(self.waits.gate(self.backlog.id(slot)));
                if self.backlog.due(slot) > now {
                    gates.push(self.not_due(slot));
                }
            }
            Place::Manual => gates.push(Gate::NeedsAPerson),
            Place::Future if extra.locked > 0 => gates.push(Gate::Locked),
            Place::Future => gates.push(self.not_due(slot)),
            _ => {}
        }
        let ties = self.ties(slot);
        let (kind, queue) = (&self.kinds[ties.kind], &self.queues[ties.queue]);
        // A job that a node is kept free for already has its places and tokens.
        let reserved = place == Place::Reserved;
        for keeper in ties.keepers() {
            let closed = self.closed_gates(now, keeper).into_iter().filter(|closed| closed.holds() || !reserved);
            gates.extend(closed.filter_map(|closed| self.describe(now, keeper, closed)));
        }
        if let Some(first) = self.first_in_line(ties.queue).filter(|&first| first != slot && queue.in_flight == 0) {
            let (queue, first, task) = (queue.name.clone(), self.backlog.id(first), self.ties(first).task);
            if self.is_known(task) {
                gates.push(Gate::Line { queue, first });
            } else {
                // First of all: whatever else holds the job up, nothing behind that one starts.
                gates.insert(0, Gate::HeldLine { queue, first, task: self.tasks[task].name.clone() });
            }
        }
        if self.fleet.alive().next().is_none() {
            gates.push(Gate::NoLiveNode);
        } else if !self.is_known(ties.task) {
            gates.push(Gate::UnknownTask);
        } else if !kind.runnable() {
            gates.push(Gate::QueueNotServed);
        }
        if extra.crashes >= ALONE_CRASHES {
            gates.push(Gate::Alone);
        }
        let class = self.kinds.class(kind.class());
        let mut could = self.fleet.indexes().filter(|&seat| class.able(seat)).peekable();
        let slots = |seats: &[Index]| seats.iter().map(|&seat| self.fleet[seat].node().slots).sum();
        if could.peek().is_some() {
            let (free, busy): (Vec<_>, Vec<_>) = could.partition(|&seat| self.fleet[seat].has_room());
            if free.is_empty() {
                gates.push(Gate::SlotsBusy { slots: slots(&busy) });
            } else if let Some(limit) = queue.settings.per_node.filter(|_| free.iter().all(|&seat| queue.full_on(seat)))
            {
                gates.push(Gate::FullOnNodes { queue: queue.name.clone(), limit });
            }
        }
        gates
    }

    /// Whether a living node knows the task; also if none lives, since then that is the reason.
    fn is_known(&self, task: Index) -> bool {
        let mut alive = self.fleet.alive().peekable();
        alive.peek().is_none() || alive.any(|seat| seat.node().tasks.contains(&self.tasks[task].name))
    }

    /// Serial queues in which nothing starts, because no living node knows the task of the first job.
    pub fn held_lines(&self) -> Vec<(QueueName, JobId, TaskName)> {
        let held = |at: Index| {
            let queue = &self.queues[at];
            let first = self.head_of_line(at).filter(|_| queue.serial() && queue.in_flight == 0)?;
            let task = self.backlog_task(first).filter(|&task| !self.is_known(task))?;
            Some((queue.name.clone(), self.backlog.id(first), self.tasks[task].name.clone()))
        };
        self.queues.indexes().filter_map(held).collect()
    }

    /// Tasks that no living node knows, and how many jobs wait for a node that does. Walks all jobs if there are such tasks: for
    /// the log, not for the hot path.
    pub fn unknown_tasks(&self) -> BTreeMap<TaskName, usize> {
        let mut unknown = BTreeMap::new();
        let known: Vec<bool> = self.tasks.indexes().map(|task| self.is_known(task)).collect();
        if known.iter().all(|known| *known) {
            return unknown;
        }
        for slot in self.backlog.slots() {
            let waits = !matches!(self.backlog.place(slot), Place::Dead | Place::Picked | Place::Assigned);
            if let Some(task) = self.backlog_task(slot).filter(|&task| waits && !known[task as usize]) {
                *unknown.entry(self.tasks[task].name.clone()).or_default() += 1;
            }
        }
        unknown
    }

    /// `None` for a row that is about to be removed.
    fn backlog_task(&self, slot: Slot) -> Option<Index> {
        (self.backlog.place(slot) != Place::Dead).then(|| self.kinds[self.backlog.kind(slot)].task)
    }

    /// A closed gate as `why` shows it.
    fn describe(&self, now: Timestamp, keeper: Keeper, closed: Closed) -> Option<Gate> {
        let whose = match keeper {
            Keeper::Queue(at) => Whose::Queue(self.queues[at].name.clone()),
            Keeper::Owner(at) => Whose::Group(self.owners.name(&self.owners[at])),
            Keeper::Task(at) => Whose::Task(self.tasks[at].name.clone()),
            Keeper::Key(at) => Whose::Key(self.keys[at].name.clone()),
        };
        let queue = match keeper {
            Keeper::Queue(at) => Some((at, &self.queues[at])),
            Keeper::Owner(_) | Keeper::Task(_) | Keeper::Key(_) => None,
        };
        Some(match closed {
            Closed::Paused => {
                let pause = match keeper {
                    Keeper::Queue(at) => self.queues[at].settings.paused.as_ref(),
                    Keeper::Owner(at) => self.owners[at].special.as_ref().and_then(|set| set.settings.paused.as_ref()),
                    Keeper::Task(_) | Keeper::Key(_) => None,
                };
                Gate::Paused { whose, pause: pause?.clone() }
            }
            Closed::Waiting => {
                let (at, queue) = queue?;
                Gate::WaitsFor { queue: queue.name.clone(), other: self.waits_for(at)?.clone() }
            }
            Closed::Window => {
                let (_, queue) = queue?;
                Gate::window(&queue.name, &queue.settings, now)?
            }
            Closed::Reading => Gate::Loading,
            Closed::Limit => {
                let (used, limit) = self.limit(keeper);
                Gate::AtLimit { whose, used, limit: limit? }
            }
            Closed::Rate(until) => Gate::Rate { whose, until },
        })
    }

    /// It is not kept whether the due time was named by the submitter or follows from the queue's schedule. So for a time that is
    /// also one of the schedule, the schedule is named.
    fn not_due(&self, slot: Slot) -> Gate {
        let due = self.backlog.due(slot);
        let queue = &self.queues[self.queue_of(slot)];
        let of_schedule = |schedule: &&Schedule| schedule.next(due.minus(Duration::from_micros(1))) == Some(due);
        let fresh = !self.backlog.fence(slot).was_assigned() && !self.backlog.stuck(slot);
        match queue.settings.schedule.as_ref().filter(|_| fresh).filter(of_schedule) {
            Some(schedule) => Gate::Scheduled { queue: queue.name.clone(), schedule: schedule.clone(), due },
            None => Gate::NotDue(due),
        }
    }

    fn first_in_line(&self, queue: Index) -> Option<Slot> {
        let queue = &self.queues[queue];
        if !queue.serial() {
            return None;
        }
        queue.begun.or_else(|| {
            queue
                .line
                .as_slice()
                .iter()
                .copied()
                .filter(|&slot| self.backlog.place(slot) == Place::Ready)
                .min_by_key(|&slot| self.backlog.seq(slot))
        })
    }

    fn forecast(&self, now: Timestamp, id: JobId, steps: usize) -> Option<Forecast> {
        // To copy a large backlog takes a while.
        if steps == 0 { None } else { Future::of(self.clone(), now).forecast(now, id, steps) }
    }
}

/// A start that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub at: Timestamp,
    pub job: JobId,
    pub group: GroupName,
    pub runs_for: Duration,
}

/// What comes next if every job takes as long as its task usually does and nothing new is submitted: a copy of the real scheduler
/// in virtual time. Jobs that wait for a person, or for a node that is not there, are never returned.
#[derive(Debug)]
pub struct Future {
    scheduler: Scheduler,
    now: Timestamp,
    /// Ends of runs, and a number that breaks ties.
    ends: BinaryHeap<Reverse<(Timestamp, usize, JobId, Fence)>>,
    starts: std::collections::VecDeque<Start>,
    count: usize,
    /// When something other than a window last made a difference.
    eventful: Timestamp,
}

/// Windows repeat every week. A job that has not started in a week in which nothing but windows changed waits for something else.
const A_WEEK: Duration = Duration::from_secs(8 * 86_400);

impl Future {
    /// Begins at `now`. This copy of the scheduler prefetches nothing, so that every assignment is a start.
    pub fn of(mut scheduler: Scheduler, now: Timestamp) -> Self {
        for seat in scheduler.fleet.iter_mut() {
            seat.prefetch_nothing();
        }
        let mut ends = BinaryHeap::new();
        // Of runs that end at the same time the first submitted ends first, so that a forecast does not depend on chance.
        let mut flights: Vec<_> = scheduler.flights.iter().collect();
        flights.sort_unstable_by_key(|(slot, _)| scheduler.backlog.seq(*slot));
        for (count, (slot, flight)) in flights.into_iter().enumerate() {
            let cost = scheduler.kinds[scheduler.backlog.kind(slot)].expected();
            let end = flight.runs_since.unwrap_or(now).plus(cost).max(now);
            ends.push(Reverse((end, count, scheduler.backlog.id(slot), scheduler.backlog.fence(slot))));
        }
        let count = ends.len();
        let mut future = Self { scheduler, now, ends, starts: std::collections::VecDeque::new(), count, eventful: now };
        future.feed(Input::Loading(false));
        future
    }

    /// When the job starts, if it is among the next `steps` that do.
    pub fn forecast(mut self, now: Timestamp, id: JobId, steps: usize) -> Option<Forecast> {
        for before in 0..steps {
            let start = self.next()?;
            if start.job == id {
                return Some(Forecast { before, starts_in: start.at.since(now) });
            }
        }
        None
    }

    /// Hands `input` to the scheduler, and confirms every pick at once.
    fn feed(&mut self, input: Input) {
        let mut outputs = self.scheduler.handle(self.now, input);
        loop {
            let Some(picks) = outputs.into_iter().find_map(|output| match output {
                Output::Assign(picks) => Some(picks),
                _ => None,
            }) else {
                return;
            };
            let replies = picks.iter().map(|pick| (pick.job, pick.fence, Reply::Assigned(pick.fence.next()))).collect();
            picks.iter().for_each(|pick| self.start(pick));
            outputs = self.scheduler.handle(self.now, Input::Replied(replies));
        }
    }

    fn cost_of(&self, slot: Slot) -> Duration {
        self.scheduler.kinds[self.scheduler.backlog.kind(slot)].expected()
    }

    fn start(&mut self, pick: &Pick) {
        let Some(slot) = self.scheduler.backlog.find(pick.job) else { return };
        let runs_for = self.cost_of(slot);
        let owner = self.scheduler.groups[self.scheduler.backlog.group(slot)].owner;
        let owners = &self.scheduler.owners;
        let group = owners.name(&owners[owner]);
        self.count += 1;
        self.ends.push(Reverse((self.now.plus(runs_for), self.count, pick.job, pick.fence.next())));
        self.starts.push_back(Start { at: self.now, job: pick.job, group, runs_for });
    }
}

impl Iterator for Future {
    type Item = Start;

    fn next(&mut self) -> Option<Start> {
        while self.starts.is_empty() {
            let end = self.ends.peek().map(|Reverse(end)| end.0);
            let event = self.scheduler.next_event(self.now);
            let window = self.scheduler.hours.next_turn().filter(|_| self.now.since(self.eventful) < A_WEEK);
            match (end, event.into_iter().chain(window).min()) {
                (Some(end), time) if time.is_none_or(|time| end <= time) => {
                    let Reverse((at, _, id, fence)) = self.ends.pop()?;
                    self.now = self.now.max(at);
                    self.eventful = self.now;
                    let ran = self.scheduler.backlog.find(id).map(|slot| self.cost_of(slot));
                    self.feed(Input::Settled(vec![Settled {
                        id,
                        fence,
                        ran,
                        rest: None,
                        failed: false,
                        well: true,
                        error: None,
                    }]));
                }
                (_, Some(time)) => {
                    self.now = self.now.max(time);
                    if event == Some(time) {
                        self.eventful = self.now;
                    }
                    self.feed(Input::Tick);
                }
                (_, None) => return None,
            }
        }
        self.starts.pop_front()
    }
}
