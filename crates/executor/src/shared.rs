//! What the loops of one node share.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use foldhash::{HashMap, HashSet};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use turnwise_core::{
    Fence, Incarnation, JobId, Serves, State, Timestamp,
    job::AssignedJob,
    lifecycle::{Outcome, WATCHED_CRASHES},
    pool::{self, Pool},
    scheduler,
    story::Finished,
};
use turnwise_store::{AskStory, BatchId, Bell, Delivery, Epoch, Lineage, Note, Store, StoreError};

use crate::{
    chance::Chance,
    clock::DatabaseClock,
    config::Config,
    contain::HoldOff,
    ctx::States,
    event::Hub,
    host::Process,
    idle::Idle,
    middleware::Middleware,
    notebook::{Run, StopSign},
    pulse::Backoff,
    registry::Registry,
    trace::{Line, Record, Trace},
};

/// The same for all lives of a node.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) serves: Serves,
    pub(crate) registry: Registry,
    pub(crate) states: States,
    /// What goes around every task, outermost first.
    pub(crate) around: Arc<[Middleware]>,
    pub(crate) hub: Hub,
    pub(crate) idle: Arc<Idle>,
    /// Whether this is the node's own pool, which says for all of them that the process is idle.
    pub(crate) speaks: bool,
    pub(crate) trace: Trace,
    pub(crate) clock: DatabaseClock,
    pub(crate) chance: Chance,
    pub(crate) process: Process,
    /// Jobs per page while the backlog is read.
    pub(crate) page: u32,
    pub(crate) counters: Counters,
    /// Whether it should leave dispatching to others for a while.
    pub(crate) hold_off: HoldOff,
    /// The node shall stop.
    pub(crate) stop: StopSign,
}

impl Shared {
    /// What is added to a wait, as a share. Where time is told to pass, nothing: who tells it says how much.
    pub(crate) fn jitter(&self) -> f64 {
        if self.clock.is_still() { 0.0 } else { self.chance.random() }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Ends that were written, those of jobs that were handed back included.
    pub(crate) written: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// One incarnation: from joining the fleet to leaving it or being declared lost.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnation: Incarnation,
    /// Ears of its own: other nodes of this process hear what this one hears.
    pub(crate) bell: Bell,
    pool: Pool,
    desk: Mutex<Desk>,
    /// Rung once per job that a worker may take.
    pub(crate) ready: Notify,
    outbox: Mutex<VecDeque<Outgoing>>,
    /// Held while it is written what runs have said so far.
    noting: tokio::sync::Mutex<()>,
    pub(crate) outgoing: Notify,
    /// Ends that cannot be written now, and since when they wait.
    put_off: Mutex<Vec<(Instant, Outgoing)>>,
    /// When ends could not wait any longer for what their runs had said.
    notes_stuck: Mutex<Option<Instant>>,
    /// Ends that are written at once, at most. Fewer after a panic, so that the one that causes it is soon alone.
    settle_limit: AtomicUsize,
    term: Mutex<Option<Term>>,
    pub(crate) told: Notify,
    term_over: Notify,
    /// Writes of ends that have begun, and those that are over: told, where there is a dispatcher here.
    settles: [AtomicU64; 2],
    /// No new jobs: the node stops, or was declared lost.
    pub(crate) draining: StopSign,
    /// The node says good-bye.
    pub(crate) leaving: StopSign,
    /// The workers may go home.
    pub(crate) over: StopSign,
    pub(crate) lost: AtomicBool,
    /// The database may think of jobs as being here that are not.
    pub(crate) unsure: AtomicBool,
    contact: Mutex<Contact>,
    /// Slots whose tasks were given up and have not returned.
    deaf: AtomicU32,
    /// There are more slots than before, or fewer.
    pub(crate) resized: Notify,
}

/// The jobs in this node's hands.
#[derive(Debug, Default)]
struct Desk {
    buffer: VecDeque<JobId>,
    held: HashMap<JobId, Held>,
    last_job: Option<Instant>,
    /// Batches with unsettled jobs, and how many.
    open: HashMap<BatchId, usize>,
    /// Batches that came, or are on their way here from this process's own dispatcher.
    known: HashSet<BatchId>,
    /// Looks at the mail that are under way, and the batches that were forgotten meanwhile: what was read before that may
    /// bring them once more.
    looks: usize,
    forgotten: HashSet<BatchId>,
    /// Batches that are through and may be removed from the store.
    done: Vec<BatchId>,
    /// Jobs that were given back because they were not here.
    disowned: HashSet<(Option<Lineage>, JobId, Fence)>,
    /// Of the database that answered the last beat.
    lineage: Option<Lineage>,
    size: Size,
}

/// The slots, where there may be more or fewer of them.
#[derive(Debug, Default)]
struct Size {
    open: u32,
    running: u32,
    cost: Option<Duration>,
    /// Since when fewer run than there are slots at rest.
    rests_since: Option<Instant>,
}

#[derive(Debug)]
struct Held {
    job: Arc<AssignedJob>,
    batch: BatchId,
    run: Arc<Run>,
    since: Instant,
    phase: Phase,
    cancel: bool,
    /// Of the database that gave it. Fences of two lineages say nothing about each other.
    lineage: Option<Lineage>,
}

/// Jobs that were given back and are remembered, at most. One that is forgotten and comes late runs once more than it should.
const DISOWNED: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Buffered,
    /// `written`: the store knows that it runs.
    Running {
        since: Instant,
        started_at: Timestamp,
        written: bool,
        /// How long it may take.
        limit: Option<Duration>,
    },
    Ended,
}

/// What the settle loop has to write.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Ended(Ended),
    /// A suspect is about to start: write `running` first, then say whether it may.
    Begin {
        job: Arc<AssignedJob>,
        may_start: oneshot::Sender<bool>,
    },
    /// A step is finished: write its result, then say whether the run may go on.
    Step {
        job: Arc<AssignedJob>,
        step: Finished,
        heard: oneshot::Sender<Heard>,
    },
}

/// What became of a step's result.
#[derive(Debug)]
pub(crate) enum Heard {
    Written,
    /// The job is in other hands.
    Superseded,
    /// The store cannot take it as it is.
    Broken(String),
}

/// For so long ends do not wait for what their runs have said, after it could not be written in time.
const NOTES_STUCK: Duration = Duration::from_secs(5);

/// Results and errors in one settlement, about.
const SETTLE_BYTES: usize = 16 * 1024 * 1024;

impl Outgoing {
    /// The run whose place this is.
    pub(crate) fn ends(&self) -> Option<(JobId, Fence)> {
        match self {
            Outgoing::Ended(Ended { job, .. }) | Outgoing::Begin { job, .. } => Some((job.id, job.fence)),
            Outgoing::Step { .. } => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Outgoing::Ended(Ended { outcome: Outcome::Done { result: Some(result) }, .. }) => result.as_str().len(),
            Outgoing::Ended(Ended { outcome: Outcome::Next { step, .. }, .. }) => step.args.as_str().len(),
            Outgoing::Step { step, .. } => step.result.as_str().len(),
            // At most a few thousand bytes of error.
            _ => 0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) job: Arc<AssignedJob>,
    /// What the run has said and is not written yet.
    pub(crate) run: Option<Arc<Run>>,
    pub(crate) outcome: Outcome,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) unheard: Unheard,
}

/// Writes of an end that panicked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unheard {
    /// One was begun: the end may be in the store already.
    pub(crate) begun: bool,
    /// Those that wrote nothing else.
    pub(crate) alone: u32,
}

impl Ended {
    /// A job that goes back without having begun.
    pub(crate) fn unbegun(job: Arc<AssignedJob>) -> Self {
        Self {
            job,
            run: None,
            outcome: Outcome::Interrupted,
            started_at: None,
            finished_at: None,
            unheard: Unheard::default(),
        }
    }
}

/// The dispatcher in this process, while it dispatches.
#[derive(Debug)]
struct Term {
    epoch: Epoch,
    settled: Vec<scheduler::Settled>,
}

/// How well the database has been heard.
#[derive(Debug, Clone, Copy)]
struct Contact {
    /// When the last beat that succeeded was sent.
    last: Instant,
    /// Since when no gap was as long as a lease.
    since: Instant,
}

impl Life {
    pub(crate) fn new(shared: Arc<Shared>, store: Arc<dyn Store>, incarnation: Incarnation, joined: Instant) -> Self {
        let pool = shared.config.pool();
        let size = Size { open: pool.core, ..Size::default() };
        Self {
            bell: store.bell().another(),
            pool,
            settle_limit: AtomicUsize::new(shared.config.batch_size),
            shared,
            store,
            incarnation,
            desk: Mutex::new(Desk { size, ..Desk::default() }),
            ready: Notify::new(),
            outbox: Mutex::default(),
            noting: tokio::sync::Mutex::default(),
            outgoing: Notify::new(),
            put_off: Mutex::default(),
            notes_stuck: Mutex::default(),
            term: Mutex::default(),
            told: Notify::new(),
            term_over: Notify::new(),
            settles: Default::default(),
            draining: StopSign::default(),
            leaving: StopSign::default(),
            over: StopSign::default(),
            lost: AtomicBool::new(false),
            unsure: AtomicBool::new(false),
            contact: Mutex::new(Contact { last: joined, since: joined }),
            deaf: AtomicU32::new(0),
            resized: Notify::new(),
        }
    }

    pub(crate) fn trace(&self, record: impl FnOnce() -> Record) {
        if self.shared.trace.is_on() {
            let line = Line {
                at: self.shared.clock.now(),
                node: &self.shared.config.name,
                incarnation: self.incarnation,
                record: record(),
            };
            self.shared.trace.write(&line);
        }
    }

    // --- contact -----------------------------------------------------------------------------------------------

    pub(crate) fn heard(&self, sent: Instant) {
        let mut contact = locked(&self.contact);
        if sent.duration_since(contact.last) > self.shared.config.lease {
            contact.since = sent;
        }
        contact.last = sent;
        drop(contact);
        self.wake_workers(usize::MAX);
    }

    /// A database that may have taken back commits may have jobs in this node's hands that were settled already, or whose
    /// mail was removed: nobody would ever see to them.
    pub(crate) fn heard_from(&self, lineage: Lineage) {
        let last = self.desk().lineage.replace(lineage);
        if last.is_some_and(|last| last != lineage) {
            // Beats were taken back too: a lease that seems over may have been prolonged.
            locked(&self.contact).since = Instant::now();
            tracing::warn!("the database has been failed over or restored; looking at what it thinks is here");
            self.unsure.store(true, Ordering::Release);
            self.bell.ring_mail();
        }
    }

    pub(crate) fn holds(&self, id: JobId, fence: Fence) -> bool {
        self.desk().held_at(id, fence).is_some()
    }

    /// Whether it is not here; then it is not taken any more, should it be on its way.
    pub(crate) fn disown(&self, id: JobId, fence: Fence) -> bool {
        let mut desk = self.desk();
        let absent = desk.held_at(id, fence).is_none();
        if absent {
            if desk.disowned.len() >= DISOWNED {
                desk.disowned.clear();
            }
            let lineage = desk.lineage;
            desk.disowned.insert((lineage, id, fence));
        }
        absent
    }

    /// Whether the lease, by this machine's own monotonic clock, still runs.
    pub(crate) fn in_contact(&self) -> bool {
        locked(&self.contact).last.elapsed() < self.shared.config.lease
    }

    /// When what a limit counts is to be stopped, unless the database is heard before: while the lease still runs, so that it
    /// has stopped when others may run it.
    pub(crate) fn doubt_at(&self) -> Instant {
        locked(&self.contact).last + self.shared.config.lease * 4 / 5
    }

    /// Stops what a limit counts. Tells how many runs that were.
    pub(crate) fn stop_limited(&self) -> usize {
        let desk = self.desk();
        let limited = desk.held.values().filter(|held| held.job.limited && !held.run.stop.is_up());
        let mut runs: Vec<_> = limited.map(|held| (held.job.id, held.run.clone())).collect();
        drop(desk);
        runs.sort_unstable_by_key(|(id, _)| *id);
        runs.iter().for_each(|(_, run)| run.stop.raise());
        runs.len()
    }

    /// Whether there is no more point in repeating what the store does not answer: the node was declared lost, or is to
    /// stop while the store is out of reach. What could not be written is seen to by the dispatcher.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.lost.load(Ordering::Acquire) || (self.shared.stop.is_up() && !self.in_contact())
    }

    /// Since when this node has heard the database, and its clock was not changed: what was seen of others before counts
    /// from then on.
    pub(crate) fn steady_since(&self) -> Duration {
        let clock = &self.shared.clock;
        clock.at(locked(&self.contact).since).max(clock.steady_since())
    }

    /// Whether that has lasted a full lease: only then may others be declared lost.
    pub(crate) fn long_in_contact(&self) -> bool {
        let steady = self.shared.clock.monotonic().saturating_sub(self.steady_since());
        self.in_contact() && steady >= self.shared.config.lease
    }

    // --- the desk: jobs come, run and go -------------------------------------------------------------------------

    fn desk(&self) -> MutexGuard<'_, Desk> {
        locked(&self.desk)
    }

    /// The own dispatcher is about to assign this batch: the mail is not to deliver it as well. `false`: it has already.
    pub(crate) fn expect(&self, batch: BatchId) -> bool {
        self.desk().known.insert(batch)
    }

    /// It is not known whether the batch was assigned: the mail shall deliver it if it was.
    pub(crate) fn unexpect(&self, batch: BatchId) {
        self.desk().known.remove(&batch);
        // Nobody rings for what a dispatcher gives to its own node.
        self.bell.mail.notify_one();
    }

    /// Before a look at the mail: what need not be brought. The look is over when it is dropped.
    pub(crate) fn look(&self) -> (Look<'_>, Vec<BatchId>) {
        let mut desk = self.desk();
        desk.looks += 1;
        (Look(self), desk.known.iter().copied().collect())
    }

    /// Jobs from the own dispatcher's reply.
    pub(crate) fn take_assigned(&self, batch: BatchId, jobs: Vec<AssignedJob>) {
        let mut desk = self.desk();
        let count = desk.accept(batch, jobs);
        self.resize(&mut desk);
        drop(desk);
        self.wake_workers(count);
    }

    /// What the mail brought; a delivery that is known already is left alone. All of it in one go: a worker that one cancel
    /// sets free must not begin a job that the next one stops.
    pub(crate) fn take_deliveries(&self, deliveries: Vec<Delivery>) {
        let mut desk = self.desk();
        let mut count = 0;
        for delivery in deliveries {
            if desk.forgotten.contains(&delivery.batch) || !desk.known.insert(delivery.batch) {
                continue;
            }
            for id in &delivery.cancel {
                if let Some(held) = desk.held.get_mut(id) {
                    held.cancel = true;
                    held.run.stop.raise();
                }
            }
            if delivery.jobs.is_empty() {
                desk.done.push(delivery.batch);
                self.outgoing.notify_one();
            }
            count += desk.accept(delivery.batch, delivery.jobs);
        }
        self.resize(&mut desk);
        drop(desk);
        self.wake_workers(count);
    }

    fn wake_workers(&self, count: usize) {
        for _ in 0..count.min(self.pool.max as usize) {
            self.ready.notify_one();
        }
    }

    /// The next job for a worker; `None` when the life is over.
    pub(crate) async fn next_job(&self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        loop {
            let ready = self.ready.notified();
            tokio::pin!(ready);
            // Listening before looking: a ring in between is not missed.
            ready.as_mut().enable();
            if self.over.is_up() {
                return None;
            }
            // What comes while the node drains goes back, so that nothing begins that could not end.
            if Instant::now() < self.doubt_at()
                && !self.draining.is_up()
                && let Some(next) = self.pop()
            {
                return Some(next);
            }
            tokio::select! {
                biased;
                () = self.over.wait() => {}
                () = ready => {}
            }
        }
    }

    fn pop(&self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        let mut desk = self.desk();
        if self.pool.fixed() {
            return desk.pop();
        }
        if desk.size.running >= desk.size.open {
            return None;
        }
        let next = desk.pop()?;
        desk.size.running += 1;
        if desk.size.running >= self.pool.core {
            desk.size.rests_since = None;
        }
        self.resize(&mut desk);
        Some(next)
    }

    /// A worker is through with its job.
    pub(crate) fn slot_is_free(&self, ran: Duration) {
        if self.pool.fixed() {
            return;
        }
        let size = &mut self.desk().size;
        size.running -= 1;
        size.cost = Some(pool::learn(size.cost, ran));
        if size.running < self.pool.core {
            size.rests_since.get_or_insert_with(Instant::now);
        }
    }

    /// Opens or closes slots, as core says.
    fn resize(&self, desk: &mut Desk) {
        if self.pool.fixed() {
            return;
        }
        let Size { open, running, cost, rests_since } = desk.size;
        let at_rest = rests_since.map_or(Duration::ZERO, |since| since.elapsed());
        let seen = pool::Seen { open, running, buffered: desk.buffer.len(), cost, at_rest };
        let next = self.pool.open(&seen);
        if next != open {
            desk.size.open = next;
            self.resized.notify_one();
            self.wake_workers(next.saturating_sub(open) as usize);
        }
    }

    /// Closes slots that nobody needs.
    pub(crate) fn rest(&self) {
        self.resize(&mut self.desk());
    }

    /// The task begins.
    pub(crate) fn begun(&self, job: &AssignedJob, started_at: Timestamp, limit: Option<Duration>) {
        if let Some(held) = self.desk().held_at(job.id, job.fence) {
            held.phase = Phase::Running {
                since: Instant::now(),
                started_at,
                // A database that was failed over may hand a job out again that it knows to be running.
                written: held.job.counts.crashes >= WATCHED_CRASHES || held.job.state == State::Running,
                limit,
            };
        }
        self.shared.idle.busy();
    }

    /// The run is over; the settle loop takes it from here.
    pub(crate) fn ended(&self, ended: Ended) {
        let mut desk = self.desk();
        // Decided under the lock, as it was when it was given up: one of the two settles the run.
        if ended.run.as_ref().is_some_and(|run| run.was_given_up()) {
            self.deaf.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        if let Some(held) = desk.held_at(ended.job.id, ended.job.fence) {
            held.phase = Phase::Ended;
        }
        drop(desk);
        self.send(Outgoing::Ended(ended));
    }

    /// The run is over and nobody has said how: its worker panicked.
    pub(crate) fn ended_unsaid(&self, ended: Ended) {
        let unsaid = self.desk().held_at(ended.job.id, ended.job.fence).is_some_and(|held| held.phase != Phase::Ended);
        if unsaid {
            self.ended(ended);
        }
    }

    /// Whether the run may write its end itself, in a transaction of its own. Not if it was given up: then its end is
    /// written already.
    pub(crate) fn may_close(&self, ended: &Ended) -> bool {
        let mut desk = self.desk();
        if ended.run.as_ref().is_some_and(|run| run.was_given_up()) {
            return false;
        }
        if let Some(held) = desk.held_at(ended.job.id, ended.job.fence) {
            held.phase = Phase::Ended;
        }
        true
    }

    /// The run has been cut short and stops, in the time it has for that: it is not deaf.
    pub(crate) fn stopping(&self, job: &AssignedJob) {
        if let Some(held) = self.desk().held_at(job.id, job.fence)
            && let Phase::Running { limit, .. } = &mut held.phase
        {
            *limit = None;
        }
    }

    pub(crate) fn send(&self, outgoing: Outgoing) {
        let mut outbox = locked(&self.outbox);
        outbox.push_back(outgoing);
        let waiting = outbox.len();
        drop(outbox);
        // Who writes them looks again after each write and each sweep: only the first is news, and the one that fills a batch.
        if waiting == 1 || waiting == self.shared.config.batch_size {
            self.outgoing.notify_one();
        }
    }

    /// They are still in this node's hands, and are tried again later.
    pub(crate) fn put_off(&self, ends: Vec<Outgoing>) {
        let since = Instant::now();
        locked(&self.put_off).extend(ends.into_iter().map(|end| (since, end)));
    }

    /// Those that have waited for `long`; all of them, once the life is over.
    pub(crate) fn take_put_off(&self, long: Duration) -> Vec<Outgoing> {
        let mut put_off = locked(&self.put_off);
        let due = |(since, what): &mut (Instant, Outgoing)| {
            // A run waits for its step.
            since.elapsed() >= long || self.over.is_up() || matches!(what, Outgoing::Step { .. })
        };
        put_off.extract_if(.., due).map(|(_, end)| end).collect()
    }

    /// Whether ends may wait for notes: not for a while after that took too long.
    pub(crate) fn may_wait_for_notes(&self) -> bool {
        locked(&self.notes_stuck).is_none_or(|since| since.elapsed() >= NOTES_STUCK)
    }

    pub(crate) fn notes_are_stuck(&self) {
        *locked(&self.notes_stuck) = Some(Instant::now());
    }

    pub(crate) fn settle_limit(&self) -> usize {
        self.settle_limit.load(Ordering::Relaxed)
    }

    /// So many together could not be written.
    pub(crate) fn settle_fewer(&self, together: usize) {
        self.settle_limit.fetch_min((together / 2).max(1), Ordering::Relaxed);
    }

    pub(crate) fn settle_more(&self) {
        let (limit, most) = (self.settle_limit(), self.shared.config.batch_size);
        if limit < most {
            self.settle_limit.store((limit * 2).min(most), Ordering::Relaxed);
        }
    }

    /// What was taken to be written and was not. Behind all others: it may be why.
    pub(crate) fn write_again(&self, unwritten: impl Iterator<Item = Outgoing>, done: Vec<BatchId>) {
        self.desk().done.extend(done);
        locked(&self.outbox).extend(unwritten);
        self.outgoing.notify_one();
    }

    pub(crate) fn has_a_full_batch(&self) -> bool {
        locked(&self.outbox).len() >= self.shared.config.batch_size
    }

    /// The next ends to write: at most `limit` of them, and no more than fit in one statement.
    pub(crate) fn take_outgoing(&self, limit: usize) -> Vec<Outgoing> {
        let mut outbox = locked(&self.outbox);
        let mut bytes = 0;
        let fits = outbox.iter().take(limit).take_while(|outgoing| {
            let before = bytes;
            bytes += outgoing.bytes();
            before < SETTLE_BYTES
        });
        let count = fits.count();
        outbox.drain(..count).collect()
    }

    pub(crate) fn take_done(&self) -> Vec<BatchId> {
        std::mem::take(&mut self.desk().done)
    }

    /// The store has removed these batches; they cannot come again.
    pub(crate) fn forget_batches(&self, done: &[BatchId]) {
        let mut desk = self.desk();
        desk.known.retain(|batch| !done.contains(batch));
        if desk.looks > 0 {
            desk.forgotten.extend(done);
        }
    }

    /// Whether a cancel has been asked for since the job was assigned.
    pub(crate) fn cancel_wanted(&self, id: JobId) -> bool {
        self.desk().held.get(&id).is_some_and(|held| held.cancel)
    }

    pub(crate) fn want_cancel(&self, id: JobId) {
        if let Some(held) = self.desk().held.get_mut(&id) {
            held.cancel = true;
        }
    }

    /// These jobs are out of this node's hands.
    pub(crate) fn release(&self, jobs: impl Iterator<Item = (JobId, Fence)>) {
        let mut desk = self.desk();
        jobs.for_each(|(id, fence)| desk.release(id, fence));
    }

    /// Jobs whose ends could not be written, out of this node's hands. Their batches are not done: what they name is how the
    /// dispatcher finds what a lost node has held.
    pub(crate) fn give_up(&self, jobs: impl Iterator<Item = (JobId, Fence)>) {
        let mut desk = self.desk();
        jobs.for_each(|(id, fence)| desk.give_up(id, fence));
    }

    /// Jobs that have run for a moment without the store knowing: `running` is to be written for them.
    pub(crate) fn still_running(&self, moment: Duration) -> Vec<(Arc<AssignedJob>, Timestamp)> {
        let desk = self.desk();
        let unwritten = desk.held.values().filter_map(|held| match held.phase {
            Phase::Running { since, started_at, written: false, .. } if since.elapsed() >= moment => {
                Some((held.job.clone(), started_at))
            }
            _ => None,
        });
        let mut running: Vec<_> = unwritten.collect();
        running.sort_unstable_by_key(|(job, _)| job.id);
        running
    }

    pub(crate) fn running_written(&self, id: JobId) {
        if let Some(held) = self.desk().held.get_mut(&id)
            && let Phase::Running { written, .. } = &mut held.phase
        {
            *written = true;
        }
    }

    /// What running jobs have said since the last time; the guard is to be held until that is written.
    pub(crate) async fn take_notes(&self) -> (tokio::sync::MutexGuard<'_, ()>, Vec<Note>) {
        let writing = self.noting.lock().await;
        let desk = self.desk();
        let running = desk.held.values().filter(|held| matches!(held.phase, Phase::Running { .. }));
        let mut notes: Vec<_> = running.filter_map(|held| held.run.take_note(held.job.id, held.job.fence)).collect();
        notes.sort_unstable_by_key(|note| note.job);
        (writing, notes)
    }

    /// It could not be written now.
    pub(crate) fn take_back(&self, note: Note) {
        if let Some(held) = self.desk().held_at(note.job, note.fence) {
            held.run.put_back(note);
        }
    }

    /// Waits for what was taken from runs while they ran: after their ends it would be refused.
    pub(crate) async fn notes_are_written(&self) {
        drop(self.noting.lock().await);
    }

    /// Gives up runs that have taken longer than they may and do not even listen: their tasks block the thread they run
    /// on. They are settled as timed out; their slots are gone until they return.
    pub(crate) fn give_up_the_deaf(&self, grace: Duration) {
        let mut deaf = Vec::new();
        for held in self.desk().held.values_mut() {
            if let Phase::Running { since, started_at, limit: Some(limit), .. } = held.phase
                && since.elapsed() > limit.saturating_add(grace)
            {
                held.phase = Phase::Ended;
                held.run.give_up();
                self.deaf.fetch_add(1, Ordering::AcqRel);
                deaf.push((held.job.clone(), held.run.clone(), started_at, limit));
            }
        }
        deaf.sort_unstable_by_key(|(job, ..)| job.id);
        for (job, run, started_at, limit) in deaf {
            tracing::error!(job = %job.id, task = %job.task, "a task blocks its thread beyond its time; it is given up");
            let finished_at = Some(self.shared.clock.now().max(started_at));
            let outcome = Outcome::TimedOut { limit };
            self.send(Outgoing::Ended(Ended {
                job,
                run: Some(run),
                outcome,
                started_at: Some(started_at),
                finished_at,
                unheard: Unheard::default(),
            }));
        }
    }

    /// Slots that can take work.
    pub(crate) fn slots(&self) -> u32 {
        self.desk().size.open.saturating_sub(self.deaf.load(Ordering::Acquire))
    }

    /// Results of finished steps, as earlier runs have left them.
    pub(crate) async fn read_steps(&self, job: JobId) -> Result<Vec<Finished>, StoreError> {
        let mut backoff = Backoff::default();
        loop {
            match self.store.story(AskStory { job, after: None, lines: 0 }).await {
                Ok(story) => return Ok(story.steps),
                Err(error) if error.is_transient() && !self.over.is_up() => backoff.wait(&self.shared.chance).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes back from the buffer what nobody has started: all of it, or what lies there longer than `age`.
    pub(crate) fn hand_back(&self, age: Duration) -> usize {
        let mut desk = self.desk();
        let Desk { buffer, held, .. } = &mut *desk;
        let mut back = Vec::new();
        buffer.retain(|id| {
            let old = held.get(id).is_some_and(|held| held.since.elapsed() >= age);
            if old {
                back.push(held[id].job.clone());
            }
            !old
        });
        drop(desk);
        let count = back.len();
        for job in back {
            self.ended(Ended::unbegun(job));
        }
        count
    }

    /// Tells every running task to stop.
    pub(crate) fn interrupt(&self) {
        let desk = self.desk();
        let mut held: Vec<_> = desk.held.iter().collect();
        held.sort_unstable_by_key(|(id, _)| **id);
        held.into_iter().for_each(|(_, held)| held.run.stop.raise());
    }

    pub(crate) fn held(&self) -> usize {
        self.desk().held.len()
    }

    /// When the last jobs came; they may be over by now.
    pub(crate) fn last_job(&self) -> Option<Instant> {
        self.desk().last_job
    }

    pub(crate) fn idle_now(&self) -> bool {
        self.held() == 0 && locked(&self.outbox).is_empty()
    }

    /// Hands back what has not begun, and waits until nothing is in this node's hands and all of it is written.
    pub(crate) async fn nothing_held(&self) {
        self.hand_back(Duration::ZERO);
        while !self.idle_now() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            // Jobs that were on their way when the node began to drain go back too.
            self.hand_back(Duration::ZERO);
        }
    }

    // --- the dispatcher in this process -----------------------------------------------------------------------

    /// From now on, what is settled here is told here.
    pub(crate) fn begin_term(&self, epoch: Epoch) {
        *locked(&self.term) = Some(Term { epoch, settled: Vec::new() });
    }

    pub(crate) fn end_term(&self) {
        *locked(&self.term) = None;
        self.term_over.notify_waiters();
    }

    /// Waits until no dispatcher of this process dispatches.
    pub(crate) async fn term_ended(&self) {
        let over = self.term_over.notified();
        tokio::pin!(over);
        over.as_mut().enable();
        if self.term().is_some() {
            over.await;
        }
    }

    pub(crate) fn term(&self) -> Option<Epoch> {
        locked(&self.term).as_ref().map(|term| term.epoch)
    }

    pub(crate) fn tell(&self, epoch: Option<Epoch>, settled: Vec<scheduler::Settled>) {
        if let Some(term) = &mut *locked(&self.term)
            && Some(term.epoch) == epoch
        {
            term.settled.extend(settled);
            self.told.notify_one();
        }
    }

    /// The settle loop begins, perhaps anew: nothing is being written.
    pub(crate) fn no_settle_is_under_way(&self) {
        self.settles[1].store(self.settles_begun(), Ordering::Release);
    }

    pub(crate) fn settle_begins(&self) {
        self.settles[0].fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn settle_is_over(&self) {
        self.settles[1].fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn settles_begun(&self) -> u64 {
        self.settles[0].load(Ordering::Acquire)
    }

    /// They are told in the order they began in: all up to this one have been.
    pub(crate) fn settles_told(&self) -> u64 {
        self.settles[1].load(Ordering::Acquire)
    }

    pub(crate) fn has_told(&self) -> bool {
        locked(&self.term).as_ref().is_some_and(|term| !term.settled.is_empty())
    }

    /// The first `limit` of those, at most.
    pub(crate) fn take_told(&self, limit: usize) -> Vec<scheduler::Settled> {
        let mut term = locked(&self.term);
        let Some(told) = term.as_mut().map(|term| &mut term.settled) else { return Vec::new() };
        let later = told.split_off(told.len().min(limit));
        std::mem::replace(told, later)
    }
}

/// A look at the mail that is under way.
pub(crate) struct Look<'a>(&'a Life);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut desk = self.0.desk();
        desk.looks -= 1;
        if desk.looks == 0 {
            desk.forgotten.clear();
        }
    }
}

impl Desk {
    fn accept(&mut self, batch: BatchId, jobs: Vec<AssignedJob>) -> usize {
        let mut count = 0;
        let mut held_already = false;
        let since = Instant::now();
        for job in jobs {
            if !self.disowned.is_empty() && self.disowned.contains(&(self.lineage, job.id, job.fence)) {
                held_already = true;
                continue;
            }
            if let Some(held) = self.held.get(&job.id) {
                let fence = held.job.fence;
                let of_another_lineage = held.lineage.is_some() && held.lineage != self.lineage;
                if fence == job.fence || (fence > job.fence && !of_another_lineage) {
                    held_already = true;
                    continue;
                }
                if of_another_lineage {
                    // What it does was taken back with the commit that asked for it.
                    held.run.stop.raise();
                    self.buffer.retain(|buffered| *buffered != job.id);
                }
                // Else it came back before its last settle here was noted.
                self.release(job.id, fence);
            }
            let run = Arc::new(Run::default());
            if job.cancel_requested {
                run.stop.raise();
            }
            let cancel = job.cancel_requested;
            let id = job.id;
            let (lineage, phase) = (self.lineage, Phase::Buffered);
            self.held.insert(id, Held { job: Arc::new(job), batch, run, since, phase, cancel, lineage });
            self.buffer.push_back(id);
            count += 1;
        }
        if count > 0 {
            self.last_job = Some(since);
            *self.open.entry(batch).or_default() += count;
        } else if held_already && !self.open.contains_key(&batch) {
            // All of it is here under another batch, which it is settled with.
            self.done.push(batch);
        }
        count
    }

    fn pop(&mut self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        while let Some(id) = self.buffer.pop_front() {
            if let Some(held) = self.held.get(&id) {
                return Some((held.job.clone(), held.run.clone()));
            }
        }
        None
    }

    /// The job as it was assigned with this fence; the same job may have come again with a newer one.
    fn held_at(&mut self, id: JobId, fence: Fence) -> Option<&mut Held> {
        self.held.get_mut(&id).filter(|held| held.job.fence == fence)
    }

    fn give_up(&mut self, id: JobId, fence: Fence) {
        if let Some(batch) = self.held_at(id, fence).map(|held| held.batch) {
            self.open.remove(&batch);
            self.release(id, fence);
        }
    }

    fn release(&mut self, id: JobId, fence: Fence) {
        if self.held_at(id, fence).is_none() {
            return;
        }
        let held = self.held.remove(&id).expect("just seen");
        if let Some(left) = self.open.get_mut(&held.batch) {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&held.batch);
                self.done.push(held.batch);
            }
        }
    }
}

/// A poisoned lock means a panic in a few lines without user code; what they guard is still in order.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn fence_number(fence: Fence) -> i64 {
    fence.0
}

#[cfg(test)]
mod tests {
    use turnwise_core::{GroupName, Json, Priority, QueueName, RetryPolicy, TaskName, Terms, job::Counts};

    use super::*;

    fn job(number: u8) -> AssignedJob {
        AssignedJob {
            id: JobId::from_parts(u64::from(number), [0; 10]),
            fence: Fence(1),
            task: TaskName::new("t").unwrap(),
            args: Json::null(),
            queue: QueueName::default(),
            group: GroupName::default(),
            priority: Priority::default(),
            retry: RetryPolicy::None,
            terms: Terms::default(),
            state: State::Scheduled,
            counts: Counts::default(),
            cancel_requested: false,
            submitted_at: Timestamp::MIN,
            limited: false,
        }
    }

    #[test]
    fn a_batch_is_done_with_its_last_job_unless_one_of_them_was_given_up() {
        let batch = |chance| BatchId::in_order(Timestamp::MIN, chance);
        let mut desk = Desk::default();
        desk.accept(batch(1), vec![job(1), job(2)]);
        desk.accept(batch(2), vec![job(3), job(4)]);
        for number in [1, 2, 4] {
            desk.release(job(number).id, Fence(1));
        }
        desk.give_up(job(3).id, Fence(1));
        assert_eq!(desk.done, [batch(1)]);
        desk.accept(batch(3), vec![job(5), job(6)]);
        desk.give_up(job(5).id, Fence(1));
        desk.release(job(6).id, Fence(1));
        assert_eq!((desk.done, desk.held.len()), (vec![batch(1)], 0));
    }
}
