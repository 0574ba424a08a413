//! What happens on a node, for listeners: `idle`, `started`, `success`, `failed`, `stuck`, `cancelled`, `panicked`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::broadcast;
use turnwise_core::{GroupName, JobId, JobState, TaskName};

use crate::lock::locked;

/// Events a slow listener may fall behind before it loses the oldest.
const BACKLOG: usize = 4_096;

/// What happens on a node. How a run ended is reported once that is stored, on the node that had the job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Nothing is left for this node to do, in none of its pools: it has nothing in its hands, and no job that is due waits
    /// for it, be it for a slot, a limit or a rate. Reported once each time that has come about.
    ///
    /// Jobs that are due later, wait for other jobs, wait for a person (stuck without a time, a paused queue or group), are
    /// shut out by their queue's windows or dependencies, or that none of its pools can run, are not left to do. The
    /// dispatcher's own process knows at once. Others look into the store 200 ms after they have nothing more, and again after
    /// ever longer whiles (a minute at most) if something was left; with more than 100,000 unfinished jobs there they do not
    /// report it.
    Idle,
    /// A task has begun.
    Started(JobEvent),
    /// Its end is stored.
    Success(JobEvent),
    /// It failed for good, and that is stored.
    Failed(JobEvent),
    /// It failed and will be tried again, or waits for a person.
    Stuck(JobEvent),
    /// It ended as cancelled in this node's hands, and that is stored. The cancel of a job that no node has makes no event.
    Cancelled(JobEvent),
    /// A control loop of this node panicked: a bug in Turnwise, or data that it does not expect. The loop goes on, no end is
    /// lost, and this node does not dispatch for a while, so that another one may. (A task's panic is its job's error.)
    Panicked(PanicEvent),
}

/// A panic in one of a node's control loops, see [`Event::Panicked`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicEvent {
    /// Which loop: `beat`, `mail`, `dispatch`, `settle` and their like.
    pub part: &'static str,
    /// What the panic said, and where.
    pub error: String,
    /// How long this node does not dispatch. Zero for what the dispatcher does besides (`statistics`, `totals`): it goes on without that.
    pub hold_off: Duration,
}

/// The run of a job that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobEvent {
    /// Which job, as `submit` returned it.
    pub id: JobId,
    /// The task that ran: a job with several steps has several.
    pub task: TaskName,
    /// The group that the job belongs to.
    pub group: GroupName,
    /// The number of the run, from 1.
    pub attempt: u32,
    /// Why the run failed, with its causes; `None` where it did not fail.
    pub error: Option<String>,
}

/// An [`Event`] without what it is about, to choose those to listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventKind {
    /// Nothing is left for the node to do.
    Idle,
    /// A task has begun.
    Started,
    /// A job has ended well.
    Success,
    /// A job has failed for good.
    Failed,
    /// A run failed; its job waits for a retry or for a person.
    Stuck,
    /// A job has ended as cancelled.
    Cancelled,
    /// A control loop of the node panicked.
    Panicked,
}

impl Event {
    /// What [`Executor::on`](crate::Executor::on) and [`Events::wait_for`] choose events by.
    pub fn kind(&self) -> EventKind {
        match self {
            Event::Idle => EventKind::Idle,
            Event::Started(_) => EventKind::Started,
            Event::Success(_) => EventKind::Success,
            Event::Failed(_) => EventKind::Failed,
            Event::Stuck(_) => EventKind::Stuck,
            Event::Cancelled(_) => EventKind::Cancelled,
            Event::Panicked(_) => EventKind::Panicked,
        }
    }

    /// The run it is about; `None` for `Idle` and `Panicked`, which are about the node.
    pub fn job(&self) -> Option<&JobEvent> {
        match self {
            Event::Idle | Event::Panicked(_) => None,
            Event::Started(job)
            | Event::Success(job)
            | Event::Failed(job)
            | Event::Stuck(job)
            | Event::Cancelled(job) => Some(job),
        }
    }

    /// The event of a job having come to `state`; waiting again is none.
    pub(crate) fn settled(state: JobState, job: JobEvent) -> Option<Event> {
        match state {
            JobState::Success => Some(Event::Success(job)),
            JobState::Failed => Some(Event::Failed(job)),
            JobState::Cancelled => Some(Event::Cancelled(job)),
            JobState::Stuck => Some(Event::Stuck(job)),
            JobState::Waiting | JobState::Scheduled | JobState::Running => None,
        }
    }
}

type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// Where events go. Cheap while no caller listens.
#[derive(Clone)]
pub struct Hub {
    stream: broadcast::Sender<Event>,
    callbacks: Arc<Mutex<Callbacks>>,
    /// Whether a caller ever listened, so that the hot path asks one flag and no lock.
    heard: Arc<AtomicBool>,
}

#[derive(Default)]
struct Callbacks {
    next: u64,
    /// Whether the thread that calls them runs.
    thread: bool,
    all: BTreeMap<u64, (Option<EventKind>, Callback)>,
}

impl Default for Hub {
    fn default() -> Self {
        Self { stream: broadcast::Sender::new(BACKLOG), callbacks: Arc::default(), heard: Arc::default() }
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    pub(crate) fn listened_to(&self) -> bool {
        self.heard.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self, event: Event) {
        if self.listened_to() {
            // No receiver is not an error.
            let _ = self.stream.send(event);
        }
    }

    pub(crate) fn subscribe(&self) -> Events {
        self.heard.store(true, Ordering::Release);
        Events { receiver: self.stream.subscribe() }
    }

    pub(crate) fn listen(&self, kind: Option<EventKind>, call: Callback) -> Listener {
        self.heard.store(true, Ordering::Release);
        let mut callbacks = locked(&self.callbacks);
        let id = callbacks.next;
        callbacks.next += 1;
        callbacks.all.insert(id, (kind, call));
        if !callbacks.thread {
            // A thread of their own: what they do must not hold up the heartbeat. It ends with the executor.
            let (events, all) = (self.stream.subscribe(), self.callbacks.clone());
            let thread = std::thread::Builder::new().name("turnwise-events".to_owned());
            callbacks.thread = thread.spawn(move || call_listeners(events, &all)).is_ok();
        }
        drop(callbacks);
        Listener { id, callbacks: self.callbacks.clone() }
    }
}

fn call_listeners(mut events: broadcast::Receiver<Event>, all: &Mutex<Callbacks>) {
    loop {
        let event = match events.blocking_recv() {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "the listeners are too slow");
                continue;
            }
            Err(broadcast::error::RecvError::Closed) => return,
        };
        let wanted: Vec<Callback> = {
            let callbacks = locked(all);
            let wants = |kind: &Option<EventKind>| kind.is_none_or(|kind| kind == event.kind());
            callbacks.all.values().filter(|(kind, _)| wants(kind)).map(|(_, call)| call.clone()).collect()
        };
        for call in wanted {
            // A listener's panic is the listener's; the others are called all the same.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&event))).is_err() {
                tracing::error!("a listener panicked on {:?}", event.kind());
            }
        }
    }
}

/// A stream of events; dropping it ends it.
#[derive(Debug)]
pub struct Events {
    receiver: broadcast::Receiver<Event>,
}

impl Events {
    /// The next event; `None` when the executor is gone. A listener that fell far behind goes on with the oldest
    /// event that is still there.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(missed)) => tracing::warn!(missed, "a listener is too slow"),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// Waits for an event of this kind and drops all others before it; `None` when the executor is gone.
    pub async fn wait_for(&mut self, kind: EventKind) -> Option<Event> {
        loop {
            let event = self.next().await?;
            if event.kind() == kind {
                return Some(event);
            }
        }
    }
}

/// A callback that is called until it is removed. Dropping the handle leaves it in place.
#[must_use = "keep it to remove the listener later"]
pub struct Listener {
    id: u64,
    callbacks: Arc<Mutex<Callbacks>>,
}

impl Listener {
    /// Calls it no more. A call for an event that is being delivered just now may still follow.
    pub fn remove(self) {
        locked(&self.callbacks).all.remove(&self.id);
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listener({})", self.id)
    }
}
