//! post, start, stop: a node in this process.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::Duration,
};

use tokio::sync::{oneshot, watch};
use turnwise_core::{Invalid, NewJob, NodeName, State};
use turnwise_store::{Bell, Enqueued, Load, Store, StoreError};

use crate::{
    chance::Chance,
    clock::DatabaseClock,
    config::Config,
    ctx::{Ctx, States},
    dispatcher,
    event::{Event, EventKind, Events, Hub, Listener},
    host::Process,
    middleware::{self, Inner, Middleware},
    node::{self, Floor},
    notebook::StopSign,
    outcome::Outcome,
    panics,
    pulse::{self, Backoff},
    registry::{Registry, RegistryError},
    settle,
    shared::{Counters, Life, Shared, locked},
    trace::{Record, Trace},
};

/// Opens a store handle. Called on the control thread, so that the connections of the control loops live there.
pub type Connect =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>> + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("task {task:?} needs state of type {need}; give it to the executor with .state(…)")]
    MissingState { task: String, need: &'static str },
    #[error("task {task:?} {otherwise}")]
    OtherDatabase { task: String, otherwise: &'static str },
    #[error(
        "the node name \"{name}\" is in use by a live node (host {host}, pid {pid}); choose another with --name, or stop that one"
    )]
    NameTaken { name: NodeName, host: String, pid: u32 },
    #[error("the executor runs already")]
    Running,
    #[error("the executor's control thread could not be started: {0}")]
    Thread(String),
}

/// What a node has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Runs whose end is stored.
    pub settled: u64,
    /// Writes of this node that were refused because the job was in other hands by then.
    pub stale: u64,
    /// Times the node had to join anew, having been declared lost.
    pub lost: u64,
}

/// Sets up a node; [`Executor::start`] puts it to work.
pub struct Builder {
    connect: Connect,
    config: Config,
    registry: Registry,
    states: States,
    around: Vec<Middleware>,
    trace: Trace,
    chance: Chance,
    process: Process,
    page: u32,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Builder {
    pub fn new(connect: Connect, config: Config) -> Self {
        Self {
            connect,
            config,
            registry: Registry::new(),
            states: States::default(),
            around: Vec::new(),
            trace: Trace::off(),
            chance: Chance::default(),
            process: Process::this(),
            page: dispatcher::PAGE,
        }
    }

    /// The tasks this node knows.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// State that tasks take as `State<T>`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(Arc::new(value));
        self
    }

    /// Goes around every task of this node: the first that is given is the outermost.
    ///
    /// ```
    /// # use turnwise_executor::{Ctx, Inner, Outcome, executor::Builder};
    /// async fn timed(ctx: Ctx, inner: Inner) -> Outcome {
    ///     let began = std::time::Instant::now();
    ///     let outcome = inner.run(ctx.clone()).await;
    ///     ctx.log(format!("took {:?}", began.elapsed()));
    ///     outcome
    /// }
    /// # fn example(builder: Builder) -> Builder {
    /// builder.around(timed)
    /// # }
    /// ```
    #[must_use]
    pub fn around<F, R>(mut self, middleware: F) -> Self
    where
        F: Fn(Ctx, Inner) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.around.push(middleware::boxed(middleware));
        self
    }

    #[must_use]
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// For the simulator: a process of its making, chance that can be repeated, and pages so short that reading the
    /// backlog takes several of them.
    #[doc(hidden)]
    #[must_use]
    pub fn simulated(mut self, process: Process, seed: u64, page: u32) -> Self {
        self.process = process;
        self.chance = Chance::seeded(seed);
        self.page = page;
        self
    }

    /// Changes the set-up.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    pub fn build(self) -> Result<Executor, StartError> {
        self.config.validate()?;
        panics::listen();
        for task in self.registry.tasks() {
            if let Some(need) = task.needs().iter().find(|need| !self.states.has(need)) {
                let task = task.name().to_owned();
                return Err(match need.otherwise {
                    Some(otherwise) => StartError::OtherDatabase { task, otherwise },
                    None => StartError::MissingState { task, need: need.name },
                });
            }
        }
        let shared = Arc::new(Shared {
            config: self.config,
            registry: self.registry,
            states: self.states,
            around: self.around.into(),
            hub: Hub::default(),
            trace: self.trace,
            clock: DatabaseClock::new(),
            chance: self.chance,
            process: self.process,
            page: self.page,
            counters: Counters::default(),
            stop: StopSign::default(),
        });
        Ok(Executor { shared, connect: self.connect, control: Mutex::new(None), running: watch::Sender::new(None) })
    }
}

/// A node. Dropping it stops it without waiting; [`Executor::stop`] waits for the work in its hands.
pub struct Executor {
    shared: Arc<Shared>,
    connect: Connect,
    control: Mutex<Option<thread::JoinHandle<()>>>,
    running: watch::Sender<Option<Arc<Life>>>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("name", &self.shared.config.name).finish_non_exhaustive()
    }
}

impl Executor {
    /// Joins the fleet and takes work. Must be called on the runtime that tasks shall run on. Returns when the node is
    /// in; the first connection is tried once, later ones for as long as it takes.
    pub async fn start(&self) -> Result<(), StartError> {
        if locked(&self.control).is_some() {
            return Err(StartError::Running);
        }
        let floor = Floor::User(tokio::runtime::Handle::current());
        let (ready, joined) = oneshot::channel();
        let (shared, connect, running) = (self.shared.clone(), self.connect.clone(), self.running.clone());
        let control = thread::Builder::new()
            .name("turnwise-control".to_owned())
            .spawn(move || {
                let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(ready.send(Err(StartError::Thread(error.to_string())))),
                };
                runtime.block_on(live(shared, connect, floor, running, Some(ready)));
            })
            .map_err(|error| StartError::Thread(error.to_string()))?;
        let joined = joined.await.unwrap_or_else(|_| Err(StartError::Thread("it ended early".to_owned())));
        if joined.is_ok() {
            *locked(&self.control) = Some(control);
        }
        joined
    }

    /// For the simulator: the whole node, tasks included, as one future on the current runtime. Not polled, it is a
    /// process that was stopped; dropped, one that was killed. It ends after [`Executor::stop`] was begun.
    #[doc(hidden)]
    pub async fn live_here(&self) {
        live(self.shared.clone(), self.connect.clone(), Floor::Here, self.running.clone(), None).await;
    }

    /// Submits a job through this node: it starts right after its commit when there is a free slot.
    pub async fn post(&self, job: NewJob) -> Result<Enqueued, StoreError> {
        let life = self.running.borrow().clone();
        let store = match &life {
            Some(life) => life.store.clone(),
            None => (self.connect)().await?,
        };
        let replies = store.enqueue(vec![job]).await?;
        store.bell().ring_news();
        replies.into_iter().next().ok_or_else(|| StoreError::broken("submit", "the store gave no answer"))
    }

    /// Takes no more jobs, lets the running ones finish within the configured time, returns the others without
    /// spending an attempt, and leaves the fleet.
    pub async fn stop(&self) {
        self.shared.stop.raise();
        let control = locked(&self.control).take();
        if let Some(control) = control {
            // The thread ends by itself; joining it is all there is to wait for.
            let _ = tokio::task::spawn_blocking(move || control.join()).await;
        }
    }

    /// What happens on this node, from now on.
    pub fn events(&self) -> Events {
        self.shared.hub.subscribe()
    }

    /// Calls `listener` for every event of `kind`, on a thread of the listeners' own, until the returned handle removes
    /// it.
    pub fn on(&self, kind: EventKind, listener: impl Fn(&Event) + Send + Sync + 'static) -> Listener {
        self.shared.hub.listen(Some(kind), Arc::new(listener))
    }

    pub fn stats(&self) -> Stats {
        let counters = &self.shared.counters;
        Stats {
            settled: counters.settled.load(Ordering::Relaxed),
            stale: counters.stale.load(Ordering::Relaxed),
            lost: counters.lives.load(Ordering::Relaxed).saturating_sub(1),
        }
    }

    pub fn name(&self) -> &NodeName {
        &self.shared.config.name
    }

    /// Where to ring after a submit in this process.
    pub fn bell(&self) -> Option<Bell> {
        self.running.borrow().as_ref().map(|life| life.store.bell())
    }

    /// Waits until nothing is left that this node could run: it waits for due times, not for what only a person or
    /// another living node can release.
    pub async fn drained(&self) -> Result<(), StoreError> {
        let mut running = self.running.subscribe();
        let poll = self.shared.config.poll_interval.min(Duration::from_millis(200));
        loop {
            let life = running.borrow_and_update().clone();
            if let Some(life) = life
                && life.idle_now()
                && nothing_left(&life).await?
            {
                return Ok(());
            }
            tokio::time::sleep(poll).await;
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.shared.stop.raise();
    }
}

/// Reads the whole backlog, a page at a time, until it finds something this node could run.
async fn nothing_left(life: &Life) -> Result<bool, StoreError> {
    let fleet = life.store.nodes().await?;
    let Some(me) = fleet.nodes.iter().find(|node| node.incarnation == life.incarnation) else { return Ok(false) };
    let in_living_hands = |holder| {
        fleet.nodes.iter().any(|node| node.incarnation == holder && node.alive(fleet.now) && holder != me.incarnation)
    };
    let mut after = None;
    loop {
        let page = life.store.load(Load::After { id: after, limit: 10_000 }).await?;
        let left = page.jobs.iter().any(|head| match head.state {
            State::Scheduled | State::Running => !head.node.is_some_and(in_living_hands),
            _ => head.due.is_some() && me.can_run(&head.queue, &head.task),
        });
        match (left, page.next) {
            (true, _) => return Ok(false),
            (false, None) => return Ok(true),
            (false, next) => after = next,
        }
    }
}

/// The control thread: one life after the other, until the node is to stop.
async fn live(
    shared: Arc<Shared>,
    connect: Connect,
    floor: Floor,
    running: watch::Sender<Option<Arc<Life>>>,
    mut ready: Option<oneshot::Sender<Result<(), StartError>>>,
) {
    let mut backoff = Backoff::default();
    while !shared.stop.is_up() {
        let life = match enter(&shared, &connect).await {
            Ok(life) => life,
            Err(error) => match ready.take() {
                Some(ready) => return drop(ready.send(Err(error))),
                None => {
                    tracing::warn!(%error, "could not join the fleet again");
                    backoff.wait(&shared.chance).await;
                    continue;
                }
            },
        };
        backoff = Backoff::default();
        running.send_replace(Some(life.clone()));
        live_once(&life, &floor, ready.take()).await;
        running.send_replace(None);
    }
}

async fn enter(shared: &Arc<Shared>, connect: &Connect) -> Result<Arc<Life>, StartError> {
    let store = connect().await?;
    let (incarnation, sent) = pulse::join(shared, &*store).await?;
    let life = Arc::new(Life::new(shared.clone(), store, incarnation, sent));
    life.trace(|| Record::Join { slots: shared.config.slots });
    Ok(life)
}

/// From the first beat to the last settle.
async fn live_once(life: &Arc<Life>, floor: &Floor, ready: Option<oneshot::Sender<Result<(), StartError>>>) {
    let (lead, leads) = watch::channel(None);
    let loops = async {
        tokio::join!(
            pulse::beat(life.clone(), lead),
            pulse::mail(life.clone()),
            pulse::doubt(life.clone()),
            dispatcher::dispatch(life.clone(), leads),
            settle::settle(life.clone()),
        )
    };
    let story = async {
        if let Some(ready) = ready {
            // Nobody waits for the answer any more: the node is stopped by the same hand.
            let _ = ready.send(Ok(()));
        }
        tokio::select! {
            biased;
            () = life.shared.stop.wait() => life.draining.raise(),
            () = life.draining.wait() => {}
        }
        wind_down(life).await;
        let left = life.lost.load(Ordering::Acquire) || pulse::leave(life).await;
        life.over.raise();
        left
    };
    let story = async {
        let ((), left) = tokio::join!(node::work_until_over(life, floor), story);
        life.outgoing.notify_one();
        left
    };
    let (_, left) = tokio::join!(loops, story);
    if !left {
        pulse::leave_at_last(life).await;
    }
}

/// Hands back what has not begun, lets the rest finish if there is time, interrupts what is left, and waits until all
/// of it is written.
async fn wind_down(life: &Life) {
    let config = &life.shared.config;
    // What the dispatcher of this process has on its way comes first, so that it is handed back with the rest.
    let _ = tokio::time::timeout(config.lease, life.term_ended()).await;
    life.hand_back(Duration::ZERO);
    let lost = life.lost.load(Ordering::Acquire);
    if config.wait_for_tasks_on_shutdown && !lost {
        let _ = tokio::time::timeout(config.await_termination, life.nothing_held()).await;
    }
    life.hand_back(Duration::ZERO);
    life.interrupt();
    // What is left now is a stubborn task or an unreachable store; neither may keep the process.
    let _ = tokio::time::timeout(config.lease.max(Duration::from_secs(2)), life.nothing_held()).await;
}
