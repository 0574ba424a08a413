//! Foreign workers, as a server answers them: the verbs of their protocol, by the store's verbs alone.
//!
//! `known` what this server remembers of a worker → `hands` what is in its hands, and what it is to stop → `take` giving it its jobs →
//! `waits` takes that wait → `beats` signs of life, many in one statement → `ends` how runs ended → `notes` what they say.
//!
//! Nothing of this must survive: what is remembered is a cache, made again from the worker's row and its assignments. So any server can
//! answer any request, also one whose last request went to another server, or to one that is gone.

mod beats;
mod ends;
mod hands;
mod known;
mod notes;
mod take;
mod waits;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::Instant;
use turnwise_core::{
    Fence, Incarnation, Invalid, JobId, JobState, Json, NodeName, Serves, TaskName,
    access::TokenId,
    job::AssignedJob,
    lifecycle::WATCHED_CRASHES,
    node::Host,
    story::{Finished, Level, Progress},
    worker::{self, LEASE, Stop, Worker},
};
use turnwise_store::{Bell, Join, Joined, OperatorStore, Replace, Store, StoreError};

use self::{beats::Beats, known::Cache, notes::KnownSecrets, waits::Waits};
use crate::{chance::Chance, clock::DatabaseClock, outcome::Outcome};

/// Tries to take a name whose owner is silent, should others try so, too.
const NAME_TRIES: usize = 5;

/// A job and one assignment of it.
pub type Held = (JobId, Fence);

/// Why a worker was not answered.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// What it said cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A living node has the name.
    #[error("the name {name} is taken; if its owner is gone, it is free in {} s", wait.as_secs() + 1)]
    NameTaken {
        /// As the worker would be called.
        name: NodeName,
        /// How long the owner's lease lasts yet.
        wait: Duration,
    },
    /// Another token registered it.
    #[error("there is no such worker")]
    NotThere,
    /// It was lost, or has left; or there never was one.
    #[error("this worker is not alive any more: stop what it runs, and register anew")]
    Lost,
    /// The database's answer, or that there was none.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a worker says when it registers.
#[derive(Debug, Clone)]
pub struct Register {
    /// Chosen by the worker, so that a repeated call is recognised; `None`: it gets a new one.
    pub id: Option<Incarnation>,
    /// Unique among living nodes.
    pub name: NodeName,
    /// Where it is, for people.
    pub host: String,
    /// Jobs it runs at a time.
    pub slots: u32,
    /// Jobs it holds beyond them.
    pub buffer: u32,
    /// The queues it serves.
    pub queues: Serves,
    /// How long it is believed to live after a beat.
    pub lease: Duration,
    /// Its facts.
    pub worker: Worker,
}

/// A worker that is known from now on.
#[derive(Debug, Clone)]
pub struct Registered {
    /// This life of it.
    pub id: Incarnation,
    /// As it was registered.
    pub lease: Duration,
    /// As they were registered.
    pub queues: Serves,
    /// As they were registered.
    pub tasks: BTreeSet<TaskName>,
}

/// What a worker asks for.
#[derive(Debug, Clone, Default)]
pub struct Take {
    /// Jobs at most; zero: it waits for stops alone.
    pub n: usize,
    /// How long to wait if there is nothing to tell.
    pub wait: Duration,
    /// What it holds.
    pub held: BTreeSet<Held>,
}

/// What it is told.
#[derive(Debug, Default)]
pub struct Taken {
    /// To run.
    pub jobs: Vec<Given>,
    /// To stop, of what it holds.
    pub stop: Vec<(Held, Stop)>,
}

/// A job for a worker.
#[derive(Debug)]
pub struct Given {
    /// All that is known of it.
    pub job: Arc<AssignedJob>,
    /// How long its run may take.
    pub timeout: Option<Duration>,
    /// Results of steps that earlier runs have finished.
    pub steps: Vec<Finished>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct End {
    /// Which run.
    pub job: Held,
    /// How long it took, by the worker's clock; `None`: it did not begin.
    pub ran: Option<Duration>,
    /// What it came to.
    pub how: How,
}

/// What a run came to.
#[derive(Debug, Clone)]
pub enum How {
    /// As a task says it.
    Said(Outcome),
    /// It was stopped because its time was over.
    TimedOut,
    /// It is given back.
    Interrupted,
}

/// What became of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndAnswer {
    /// Written, now or before; the job is in this state.
    Applied(JobState),
    /// Another node has the job, or a person or its timeout has ended it.
    Stale,
    /// There is no such job any more.
    Gone,
    /// It cannot be stored; the job failed with that.
    Invalid(String),
    /// Another transaction holds the job: to be sent again.
    Locked,
}

/// What a run says.
#[derive(Debug, Clone)]
pub struct Said {
    /// Which run.
    pub job: Held,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// Lines of its log, each with its number from 0.
    pub lines: Vec<SaidLine>,
    /// Results of steps that it has finished.
    pub steps: Vec<(String, Json)>,
}

/// A line of a run's log.
#[derive(Debug, Clone)]
pub struct SaidLine {
    /// Counts the lines of the run.
    pub number: u32,
    /// How urgent it is.
    pub level: Level,
    /// When it was written, by the worker's clock; `None`: now.
    pub time: Option<turnwise_core::Timestamp>,
    /// What it says.
    pub text: String,
}

/// What became of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteAnswer {
    /// Written, now or before.
    Applied,
    /// The job is not in the worker's hands.
    Stale,
    /// Another transaction holds the job: to be sent again.
    Locked,
}

/// What leaving came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It is gone.
    Gone,
    /// So many jobs are still in its hands.
    Holds(usize),
}

/// The workers that this server answers.
#[derive(Debug)]
pub struct Workers {
    store: Arc<dyn Store>,
    operators: Arc<dyn OperatorStore>,
    bell: Bell,
    clock: DatabaseClock,
    chance: Chance,
    cache: Cache,
    beats: Beats,
    waits: Waits,
    secrets: KnownSecrets,
}

impl Workers {
    /// On these two sides of one store.
    pub fn new(store: Arc<dyn Store>, operators: Arc<dyn OperatorStore>) -> Self {
        Self::with(store, operators, Chance::default())
    }

    /// As [`Workers::new`], with chance from a seed, so that a run can be repeated.
    #[doc(hidden)]
    pub fn seeded(store: Arc<dyn Store>, operators: Arc<dyn OperatorStore>, seed: u64) -> Self {
        Self::with(store, operators, Chance::seeded(seed))
    }

    fn with(store: Arc<dyn Store>, operators: Arc<dyn OperatorStore>, chance: Chance) -> Self {
        Self {
            bell: store.bell(),
            clock: DatabaseClock::new(false, LEASE),
            chance,
            cache: Cache::default(),
            beats: Beats::default(),
            waits: Waits::default(),
            secrets: KnownSecrets::default(),
            store,
            operators,
        }
    }

    /// Makes a worker known. The name of a living node is not taken; one whose lease is over, by the database's time, is replaced.
    ///
    /// Repeated with the same id, it is answered as the first call was.
    pub async fn register(&self, ask: Register) -> Result<Registered, WorkerError> {
        ask.worker.check()?;
        if let Some(id) = ask.id
            && let Some(found) = self.operators.worker(id).await?
        {
            return match found {
                found if found.worker.token != ask.worker.token || found.node.name != ask.name => {
                    Err(Invalid::new("worker", "is the id of another worker; make a fresh one for each life").into())
                }
                found if found.node.lost => Err(WorkerError::Lost),
                found => {
                    Ok(Registered { id, lease: found.node.lease, queues: found.node.queues, tasks: found.node.tasks })
                }
            };
        }
        self.operators.note_secrets(ask.worker.secrets()).await?;
        let id =
            ask.id.unwrap_or_else(|| Incarnation(uuid::Builder::from_random_bytes(self.chance.random()).into_uuid()));
        let tasks: BTreeSet<TaskName> = ask.worker.tasks.keys().cloned().collect();
        let mut replace = None;
        for _ in 0..NAME_TRIES {
            let join = Join {
                incarnation: id,
                name: ask.name.clone(),
                // No process of any machine: no node believes that it is gone because it does not see it.
                host: Host {
                    name: ask.host.clone(),
                    boot_id: String::new(),
                    pid_namespace: String::new(),
                    pid: 0,
                    started: 0,
                    version: None,
                },
                slots: ask.slots,
                queue_capacity: ask.buffer,
                batch_size: None,
                queues: ask.queues.clone(),
                tasks: tasks.clone(),
                lease: ask.lease,
                replace,
                worker: Some(ask.worker.clone()),
            };
            match self.store.join(join).await? {
                Joined::In { now } => {
                    self.clock.heard(now);
                    return Ok(Registered { id, lease: ask.lease, queues: ask.queues, tasks });
                }
                Joined::Taken { by, now } => match worker::wait_for_name(&by, now) {
                    None => replace = Some(Replace { incarnation: by.incarnation, lease_until: by.lease_until }),
                    Some(wait) => return Err(WorkerError::NameTaken { name: ask.name, wait }),
                },
            }
        }
        Err(StoreError::transient("join", "others take the same name all the time").into())
    }

    /// Hands back what the worker has not begun, and what was assigned to it and is not among what it holds; then removes it, unless jobs
    /// are still in its hands. `held`: what it still runs; `None`: it does not say, and may run all that is assigned to it and that it does
    /// not give back.
    pub async fn leave(
        &self,
        node: Incarnation,
        token: Option<TokenId>,
        back: Vec<Held>,
        held: Option<BTreeSet<Held>>,
    ) -> Result<Left, WorkerError> {
        let known = match self.known(node, token).await {
            // A repeated call, or one of a worker that was buried.
            Err(WorkerError::Lost) => return Ok(Left::Gone),
            known => known?,
        };
        let back: BTreeSet<Held> = back.into_iter().collect();
        self.look(&known, &BTreeSet::new()).await?;
        let returns = |job: &Held| back.contains(job) || held.as_ref().is_some_and(|held| !held.contains(job));
        let (returned, kept): (Vec<Held>, Vec<Held>) = known.all_in_hands().into_iter().partition(returns);
        let ends = returned.into_iter().map(|job| End { job, ran: None, how: How::Interrupted }).collect();
        let answers = self.settle_known(&known, ends).await?;
        let locked = answers.iter().filter(|answer| **answer == EndAnswer::Locked).count();
        if !kept.is_empty() || locked > 0 {
            return Ok(Left::Holds(kept.len() + locked));
        }
        if self.store.leave(node).await? {
            self.cache.forget(node);
            return Ok(Left::Gone);
        }
        // Assigned meanwhile; the next call hands it back.
        known.is_unsure();
        Ok(Left::Holds(1))
    }

    fn is_watched(job: &AssignedJob) -> bool {
        job.counts.crashes >= WATCHED_CRASHES && job.state != JobState::Running
    }

    /// How long something has lasted that began by the database's clock.
    fn since(&self, began: turnwise_core::Timestamp) -> Duration {
        self.clock.now().since(began)
    }

    fn ago(span: Duration) -> Instant {
        let now = Instant::now();
        now.checked_sub(span).unwrap_or(now)
    }
}
