//! What the database did, commit by commit, and whether it was allowed to.
//!
//! The ledger stands where the commits are made, so it also sees what no process got an answer about. What it checks is
//! exact: limits, lines and dependencies hold for the rows, at every moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use turnwise_core::{
    After, Fence, GroupName, Incarnation, JobHead, JobId, JobState, KeyName, NewJob, OnFailure, QueueName, TaskName,
    lifecycle::Target,
    settings::{Concurrency, OnError, Settings},
};
use turnwise_store::{
    AskNews, Assign, AssignReply, Author, Epoch, Intervention, Load, Memo, MemoKind, NewMemo, News, Page, Settle,
    Settled, Submitted, memo,
};

use super::task::Runs;

/// A dispatcher may still use settings that were changed this long ago: it reads changes as news, and may have been out of
/// reach for as long as its lease.
const LAG: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    jobs: BTreeMap<JobId, Entry>,
    flights: BTreeMap<JobId, Flight>,
    orders: u64,
    memos: BTreeMap<(MemoKind, String), String>,
    /// All settings there ever were, and since when; the last ones are in force.
    settings: Vec<(Duration, Settings)>,
    assigned: BTreeSet<(JobId, Fence, Incarnation)>,
    /// Every assignment there ever was, taken back or not.
    ever_assigned: BTreeSet<(JobId, Fence, Incarnation)>,
    /// Queues that should be paused because of this job, which failed at this time.
    to_pause: BTreeMap<QueueName, (Duration, JobId)>,
    runs: Runs,
    /// When the database's clock was last changed: leases may have ended early by it.
    clock_changed: Option<Duration>,
    /// How often it was set back.
    set_backs: u32,
    /// When a dispatcher first read a job.
    known: BTreeMap<JobId, Duration>,
    pub(crate) tenures: Vec<Tenure>,
    pub(crate) violations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    queue: QueueName,
    group: GroupName,
    task: TaskName,
    key: Option<KeyName>,
    /// In which order it came in.
    order: u64,
    /// Whether it stands in its queue's order from the beginning.
    in_order: bool,
    begun: bool,
    state: JobState,
    fence: Fence,
    /// The jobs it waits for, until it has begun or a person retries it.
    after: After,
    /// Whether it has ended, perhaps to be brought back since.
    has_ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Flight {
    fence: Fence,
    node: Incarnation,
    since: Duration,
}

/// A job in a node's hands, from commit to commit.
#[derive(Debug, Clone)]
pub(crate) struct Tenure {
    pub(crate) queue: QueueName,
    pub(crate) group: GroupName,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) ran: Option<Duration>,
}

impl Ledger {
    pub(crate) fn new(runs: Runs) -> Self {
        Self { runs, ..Self::default() }
    }

    pub(crate) fn enqueued(&mut self, _: Duration, jobs: &[NewJob], answer: &[Submitted]) {
        for (job, enqueued) in jobs.iter().zip(answer) {
            if !enqueued.new {
                continue;
            }
            self.orders += 1;
            let entry = Entry {
                queue: job.queue.clone(),
                group: job.group.clone(),
                task: job.task.clone(),
                key: job.key.clone(),
                order: self.orders,
                // A job that waits for others has its place only when it may begin.
                in_order: job.due.is_none() && job.after.is_empty(),
                begun: false,
                state: JobState::Waiting,
                fence: Fence::default(),
                after: job.after.clone(),
                has_ended: false,
            };
            if self.jobs.insert(job.id, entry).is_some() {
                self.broken(format!("job {} was stored twice", job.id));
            }
        }
    }

    pub(crate) fn assigned(&mut self, at: Duration, assign: &Assign, answer: &[(JobId, AssignReply)]) {
        for (id, reply) in answer {
            let fence = match reply {
                AssignReply::Mine(job) => job.fence,
                AssignReply::Theirs(fence) => *fence,
                AssignReply::Locked | AssignReply::Changed(_) | AssignReply::Gone => continue,
            };
            let Some(pick) = assign.picks.iter().find(|pick| pick.job == *id) else {
                self.broken(format!("job {id} was assigned and not picked"));
                continue;
            };
            // The answer to a repeated call.
            if !self.assigned.insert((*id, fence, pick.node)) {
                continue;
            }
            self.ever_assigned.insert((*id, fence, pick.node));
            let Some(entry) = self.jobs.get(id).cloned() else {
                self.broken(format!("job {id} was assigned and never submitted"));
                continue;
            };
            if entry.state.finished() || self.flights.contains_key(id) {
                self.broken(format!("job {id} was assigned while it was {}", entry.state));
            }
            self.check_line(at, *id, &entry);
            self.check_dependencies(at, *id, &entry);
            self.check_awaited(*id, &entry);
            self.flights.insert(*id, Flight { fence, node: pick.node, since: at });
            let entry = self.jobs.get_mut(id).expect("just read");
            (entry.begun, entry.state, entry.fence) = (true, JobState::Scheduled, fence);
            entry.after = After::default();
            self.check_limits(at, *id, pick.node);
        }
    }

    pub(crate) fn settled(&mut self, at: Duration, settle: &Settle, answer: &[Settled]) {
        let lost = matches!(settle.author, Author::Dispatcher { .. });
        for (settlement, reply) in settle.settlements.iter().zip(answer) {
            let id = settlement.job;
            let flight = self.flights.get(&id).filter(|flight| flight.fence == settlement.fence).cloned();
            let (Settled::Applied, Some(flight)) = (reply, flight) else { continue };
            let Some(entry) = self.jobs.get_mut(&id) else { continue };
            entry.state = settlement.to.state(entry.state);
            entry.has_ended |= entry.state.finished();
            if settlement.to.to == Target::Running {
                continue;
            }
            if lost {
                entry.fence = settlement.fence.next();
                self.check_stopped(at, id, &flight);
            }
            let entry = &self.jobs[&id];
            let (queue, group, state) = (entry.queue.clone(), entry.group.clone(), entry.state);
            self.flights.remove(&id);
            let error = state == JobState::Failed || (state == JobState::Stuck && settlement.ran().is_some());
            if error && self.pauses_on_error(&queue) {
                self.to_pause.entry(queue.clone()).or_insert((at, id));
            }
            self.tenures.push(Tenure { queue, group, from: flight.since, to: at, ran: settlement.ran() });
        }
    }

    pub(crate) fn loaded(&mut self, at: Duration, _: &Load, page: &Page) {
        self.note_known(at, &page.jobs);
    }

    pub(crate) fn news_read(&mut self, at: Duration, _: &AskNews, news: &News) {
        self.note_known(at, &news.jobs);
    }

    fn note_known(&mut self, at: Duration, jobs: &[JobHead]) {
        for job in jobs {
            self.known.entry(job.id).or_insert(at);
        }
    }

    pub(crate) fn known_since(&self, job: JobId) -> Option<Duration> {
        self.known.get(&job).copied()
    }

    pub(crate) fn controlled(&mut self, _: Duration, interventions: &[Intervention], answer: &[Settled]) {
        for (intervention, reply) in interventions.iter().zip(answer) {
            if *reply != Settled::Applied {
                continue;
            }
            let Some(entry) = self.jobs.get_mut(&intervention.job) else { continue };
            if let Target::Edited(edit) = &intervention.to.to {
                if entry.state.assigned() || entry.state.finished() || entry.fence != intervention.fence {
                    let problem = format!("job {} was edited while it was {}", intervention.job, entry.state);
                    self.violations.push(problem);
                    continue;
                }
                entry.fence = entry.fence.edited();
                if let Some(queue) = &edit.queue {
                    entry.queue = queue.name.clone();
                    // Where the next dispatcher finds out that it failed, it is in its new queue.
                    self.to_pause.retain(|_, (_, job)| *job != intervention.job);
                }
                // A job that is postponed, or comes from another queue, has no place in the order any more.
                entry.in_order &= edit.queue.is_none() && edit.due.is_none();
                continue;
            }
            let was_finished = entry.state.finished();
            entry.state = intervention.to.state(entry.state);
            entry.has_ended |= entry.state.finished();
            if was_finished {
                entry.after = After::default();
                // It comes in anew, behind all others.
                self.orders += 1;
                (entry.order, entry.in_order) = (self.orders, false);
            }
        }
    }

    pub(crate) fn remembered(
        &mut self,
        at: Duration,
        (lead, memos): &(Option<(Incarnation, Epoch)>, Vec<NewMemo>),
        answer: &[bool],
    ) {
        let mut changed = false;
        for (memo, written) in memos.iter().zip(answer) {
            if !written || !memo::SETTINGS.contains(&memo.kind) {
                continue;
            }
            changed = true;
            let name = (memo.kind, memo.name.clone());
            match &memo.value {
                Some(value) => drop(self.memos.insert(name, value.clone())),
                None => drop(self.memos.remove(&name)),
            }
            if memo.kind == MemoKind::Queue
                && lead.is_none()
                && let Ok(queue) = QueueName::new(&memo.name)
            {
                // A person has looked at it since.
                self.to_pause.remove(&queue);
            }
        }
        if changed {
            let memo = |((kind, name), value): (&(MemoKind, String), &String)| Memo {
                kind: *kind,
                name: name.clone(),
                value: value.clone(),
                version: 1,
            };
            let memos: Vec<_> = self.memos.iter().map(memo).collect();
            let settings = memo::settings(&memos);
            let paused = |queue: &QueueName| settings.queues.get(queue).is_some_and(|set| set.paused.is_some());
            self.to_pause.retain(|queue, _| !paused(queue));
            self.settings.push((at, settings));
        }
    }

    /// Finds queues that should be paused at `at` and are not: the dispatcher reads of an error within `lag`. `false`: there are
    /// queues whose error is younger than that; they are to be checked again.
    pub(crate) fn check_pauses(&mut self, at: Duration, lag: Duration) -> bool {
        let overdue: Vec<_> = self.to_pause.extract_if(.., |_, (since, _)| *since + lag <= at).collect();
        for (queue, (_, job)) in overdue {
            self.broken(format!("queue {queue} is set to pause on an error, job {job} failed, and it is not paused"));
        }
        self.to_pause.is_empty()
    }

    pub(crate) fn clock_was_changed(&mut self, at: Duration) {
        self.clock_changed = Some(at);
    }

    /// Jobs that came before are due later than jobs that come now: they have no place in the order any more.
    pub(crate) fn clock_was_set_back(&mut self) {
        self.set_backs += 1;
        self.lose_order();
    }

    fn lose_order(&mut self) {
        self.jobs.values_mut().filter(|entry| !entry.state.finished()).for_each(|entry| entry.in_order = false);
    }

    /// Whether this run was ever assigned.
    pub(crate) fn was_assigned(&self, job: JobId, fence: Fence, node: Incarnation) -> bool {
        self.ever_assigned.contains(&(job, fence, node))
    }

    /// The commits since `earlier` were taken back. Returns the jobs that have changed by it, and whether they are gone.
    pub(crate) fn take_back(&mut self, mut earlier: Ledger) -> Vec<(JobId, bool)> {
        // The clock is not taken back.
        if self.set_backs > earlier.set_backs {
            earlier.lose_order();
        }
        (earlier.set_backs, earlier.clock_changed) = (self.set_backs, self.clock_changed);
        let changed = |(id, entry): (&JobId, &Entry)| match earlier.jobs.get(id) {
            None => Some((*id, true)),
            Some(before) => (before != entry).then_some((*id, false)),
        };
        let changed = self.jobs.iter().filter_map(changed).collect();
        let ever_assigned = std::mem::take(&mut self.ever_assigned);
        let violations = std::mem::take(&mut self.violations);
        *self = Ledger { ever_assigned, violations, ..earlier };
        changed
    }

    fn broken(&mut self, violation: String) {
        self.violations.push(violation);
    }

    /// All settings that a dispatcher may use.
    fn in_effect(&self, at: Duration) -> impl Iterator<Item = &Settings> {
        let begin = at.saturating_sub(LAG);
        let first = self.settings.iter().rposition(|(since, _)| *since <= begin).unwrap_or(0);
        self.settings[first..].iter().map(|(_, settings)| settings)
    }

    fn pauses_on_error(&self, queue: &QueueName) -> bool {
        let last = self.settings.last().and_then(|(_, settings)| settings.queues.get(queue));
        last.is_some_and(|settings| settings.on_error == OnError::Pause && settings.paused.is_none())
    }

    fn check_limits(&mut self, at: Duration, id: JobId, node: Incarnation) {
        let Entry { queue, group, task, key, .. } = self.jobs[&id].clone();
        // Where a limit was not set at some time, there was no limit at that time.
        let most = |limit: &dyn Fn(&Settings) -> Option<u32>| {
            self.in_effect(at).map(|settings| limit(settings).unwrap_or(u32::MAX)).max().unwrap_or(u32::MAX)
        };
        let concurrency = |settings: &Settings| match settings.queues.get(&queue)?.concurrency {
            Concurrency::Unlimited => None,
            Concurrency::AtMost(most) => Some(most),
            Concurrency::Serial => Some(1),
        };
        let in_queue = most(&concurrency);
        let on_node = most(&|settings| settings.queues.get(&queue)?.per_node);
        let of_group = most(&|settings| settings.groups.get(&group)?.concurrency);
        let of_task = most(&|settings| settings.tasks.get(&task)?.concurrency);
        let of_key = most(&|settings| settings.keys.get(key.as_ref()?)?.concurrency);
        let count = |counts: &dyn Fn(&Entry, &Flight) -> bool| {
            self.flights.iter().filter(|(id, flight)| counts(&self.jobs[id], flight)).count()
        };
        let found = [
            ("its queue", in_queue, count(&|entry, _| entry.queue == queue)),
            ("its queue on its node", on_node, count(&|entry, flight| entry.queue == queue && flight.node == node)),
            ("its group", of_group, count(&|entry, _| entry.group == group)),
            ("its task", of_task, count(&|entry, _| entry.task == task)),
            ("its key", of_key, count(&|entry, _| key.is_some() && entry.key == key)),
        ];
        for (whose, limit, count) in found {
            if count > limit as usize {
                self.broken(format!("job {id} was assigned as the {count}th of {whose}, whose limit is {limit}"));
            }
        }
    }

    /// A node that is declared lost has stopped, before that, the jobs that count against a limit. (Not where the clock jumped: by
    /// it a lease may end before its time.)
    fn check_stopped(&mut self, at: Duration, id: JobId, flight: &Flight) {
        let steady = self.clock_changed.is_none_or(|changed| changed + LAG < at);
        if !steady || !self.runs.going_on(id, flight.fence) {
            return;
        }
        let Entry { queue, group, task, key, .. } = self.jobs[&id].clone();
        let limited = |settings: &Settings| {
            let in_queue = settings.queues.get(&queue);
            in_queue.is_some_and(|set| set.concurrency != Concurrency::Unlimited || set.per_node.is_some())
                || settings.groups.get(&group).is_some_and(|set| set.concurrency.is_some())
                || settings.tasks.get(&task).is_some_and(|set| set.concurrency.is_some())
                || key.as_ref().and_then(|key| settings.keys.get(key)).is_some_and(|set| set.concurrency.is_some())
        };
        // Ever since the dispatcher assigned the job.
        if !self.settings.is_empty() && self.in_effect(flight.since).all(limited) {
            self.broken(format!("job {id} counts against a limit and still runs on a node that was declared lost"));
        }
    }

    /// In a serial queue no job begins before the jobs that came earlier; where errors hold the line, not before those have
    /// ended.
    fn check_line(&mut self, at: Duration, id: JobId, entry: &Entry) {
        let queue = |settings: &Settings| settings.queues.get(&entry.queue).cloned().unwrap_or_default();
        let serial = self.in_effect(at).all(|settings| queue(settings).concurrency == Concurrency::Serial);
        if !serial || self.settings.is_empty() || entry.begun {
            return;
        }
        let blocks = self.in_effect(at).all(|settings| queue(settings).on_error == OnError::Block);
        let earlier = self.jobs.iter().find(|(_, other)| {
            other.queue == entry.queue
                && other.in_order
                && other.order < entry.order
                && !other.state.finished()
                && (blocks || !other.begun)
        });
        if let Some((other, _)) = earlier {
            self.broken(format!("job {id} of the serial queue {} began before job {other}", entry.queue));
        }
    }

    /// No job begins before all jobs that it waits for have ended, nor after a bad end that is to end it as well.
    fn check_awaited(&mut self, id: JobId, entry: &Entry) {
        for awaited in entry.after.ids() {
            let Some(other) = self.jobs.get(awaited) else { continue };
            let (has_ended, state) = (other.has_ended, other.state);
            if !has_ended {
                self.broken(format!(
                    "job {id} began before job {awaited}, which it waits for, had ended: it was {state}"
                ));
            }
            let bad = matches!(state, JobState::Failed | JobState::Cancelled);
            if bad && entry.after.on_failure() != Some(OnFailure::Run) {
                self.broken(format!("job {id} began although job {awaited}, which it waits for, was {state}"));
            }
        }
    }

    fn check_dependencies(&mut self, at: Duration, id: JobId, entry: &Entry) {
        let after = |settings: &Settings| match settings.queues.get(&entry.queue) {
            Some(queue) => queue.after.clone(),
            None => Vec::new(),
        };
        let Some(last) = self.settings.last().map(|(_, settings)| settings) else { return };
        let sealed = |queue: &QueueName| last.queues.get(queue).is_some_and(|settings| settings.sealed.is_some());
        let open = after(last).into_iter().find_map(|first| {
            let always = self.in_effect(at).all(|settings| after(settings).contains(&first));
            let left = self.jobs.iter().find(|(_, other)| other.queue == first && !other.state.finished());
            let why = match left {
                Some((other, entry)) => format!("job {other} of it was {}", entry.state),
                None => "it was not sealed".to_owned(),
            };
            (always && (left.is_some() || !sealed(&first))).then_some((first, why))
        });
        if let Some((first, why)) = open {
            let queue = &entry.queue;
            self.broken(format!("job {id} of queue {queue} was assigned before queue {first} was finished: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use turnwise_core::Json;

    use super::*;

    #[test]
    fn a_failover_does_not_bring_back_an_order_that_a_clock_set_back_has_ended() {
        let job = NewJob::new(JobId::from_parts(1, [0; 10]), TaskName::new("t").unwrap(), Json::null());
        let mut ledger = Ledger::new(Runs::default());
        ledger.enqueued(Duration::ZERO, std::slice::from_ref(&job), &[Submitted::itself(job.id, true)]);
        let earlier = ledger.clone();
        ledger.clock_was_set_back();
        assert_eq!(ledger.take_back(earlier), [], "only its place in the order has changed");
        assert!(!ledger.jobs[&job.id].in_order);
    }
}
