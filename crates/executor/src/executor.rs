//! submit, start, stop: a node in this process, with all its pools.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, Weak, atomic::Ordering},
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    runtime::Runtime,
    sync::{oneshot, watch},
};
use turnwise_core::{Invalid, JobId, NewJob, NodeName, TaskName, pace, remaining::Remaining, secret::Secrets};
use turnwise_store::{Bell, OperatorStore, Store, StoreError, Submitted};

use crate::{
    chance::Chance,
    clock::DatabaseClock,
    config::Config,
    contain::HoldOff,
    ctx::{Ctx, States},
    dispatcher,
    event::{Event, EventKind, Events, Hub, Listener},
    host::Process,
    idle::{self, Idle},
    life::{self, Life},
    lock::locked,
    logs::Logs,
    middleware::{self, Inner, Middleware},
    outcome::Outcome,
    panics,
    pool::{self, Pool},
    registry::{Registry, RegistryError},
    stop_sign::StopSign,
    this_node::{Counters, ThisNode},
    threads,
    trace::Trace,
    worker::Floor,
};

/// Opens a store handle. Called on the control thread, so that the connections of the control loops live there.
pub type Connect = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Connected, StoreError>> + Send>> + Send + Sync>;

/// A store handle, with both its sides.
#[derive(Debug, Clone)]
pub struct Connected {
    /// What nodes work with.
    pub store: Arc<dyn Store>,
    /// Where the dispatcher writes what only operators read; `None`: the store has no such side, and nothing is written.
    pub operators: Option<Arc<dyn OperatorStore>>,
}

impl Connected {
    /// A store without a side for operators.
    pub fn to(store: Arc<dyn Store>) -> Self {
        Self { store, operators: None }
    }

    /// A store with both sides.
    pub fn to_both(store: Arc<impl Store + OperatorStore>) -> Self {
        Self { store: store.clone(), operators: Some(store) }
    }
}

/// Why an executor could not be built or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store could not be opened, or did not let the node join; the node is not running.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A configured value is out of its bounds; the text names it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The program's annotated tasks cannot be registered together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A task takes `State<T>` of a type that was not given to the executor.
    #[error("task {task:?} needs state of type {need}; give it to the executor with .state(…)")]
    MissingState { task: String, need: &'static str },
    /// A transactional task needs another database than the one this executor works on.
    #[error("task {task:?} {otherwise}")]
    OtherDatabase { task: String, otherwise: &'static str },
    /// Another node has the name and renewed its lease while this one waited; this one is not running.
    #[error(
        "the node name \"{name}\" is in use by a live node (host {host}, pid {pid}); choose another with --name, or stop that one"
    )]
    NameTaken { name: NodeName, host: String, pid: u32 },
    /// It was started before and has not stopped completely; it goes on as it was.
    #[error("the executor runs already")]
    Running,
    /// A thread could not be started, or ended or panicked before the node had joined the fleet; the node is not running.
    #[error("the executor's control thread could not be started: {0}")]
    Thread(String),
}

/// What a node has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs whose end, or whose next step or wait, is stored. Not those that were handed back as they were.
    pub settled: u64,
    /// Writes of this node that were refused because the job was no longer in its hands.
    pub stale: u64,
    /// Times the node had to join anew, having been declared lost.
    pub lost: u64,
    /// Times its dispatcher looked for news.
    pub looks: u64,
    /// Times a bell woke its dispatcher.
    pub rings: u64,
    /// The term in which it dispatches; `None` while it does not.
    pub epoch: Option<i64>,
    /// How long ago the last beat was sent that the database has answered; `None` while it is not in the fleet.
    pub lease_age: Option<Duration>,
}

/// What a pool of a node does now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// As the fleet knows it: the node's name, or `name/pool`.
    pub name: NodeName,
    /// Slots that are open.
    pub slots: u32,
    /// Tasks that run.
    pub running: usize,
}

/// Sets up a node; [`Executor::start`] puts it to work.
pub struct Builder {
    connect: Connect,
    config: Config,
    pools: Vec<(String, Pool)>,
    registry: Registry,
    operators: Option<Arc<dyn OperatorStore>>,
    states: States,
    around: Vec<Middleware>,
    trace: Trace,
    chance: Chance,
    process: Process,
    page: u32,
    still: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Builder {
    /// A node without tasks, state and other pools. Nothing is checked before [`Builder::build`]; `connect` is called by
    /// [`Executor::start`].
    pub fn new(connect: Connect, config: Config) -> Self {
        Self {
            connect,
            config,
            pools: Vec::new(),
            registry: Registry::new(),
            operators: None,
            states: States::default(),
            around: Vec::new(),
            trace: Trace::off(),
            chance: Chance::default(),
            process: Process::this(),
            page: dispatcher::PAGE,
            still: false,
        }
    }

    /// The tasks this node knows.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Where the secret fields of this node's tasks are noted when it starts, for every program that shows jobs. A node whose tasks have
    /// some does not start without it.
    #[must_use]
    pub fn operators(mut self, operators: Option<Arc<dyn OperatorStore>>) -> Self {
        self.operators = operators;
        self
    }

    /// State that tasks take as `State<T>`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(Arc::new(value));
        self
    }

    /// As [`Builder::state`], for what is shared already or hides behind a trait, taken as `State<dyn Mailer>`:
    /// `builder.shared::<dyn Mailer>(Arc::new(Smtp::new()))`.
    #[must_use]
    pub fn shared<T: Send + Sync + ?Sized + 'static>(mut self, value: Arc<T>) -> Self {
        self.states.insert(value);
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
    /// builder.middleware(timed)
    /// # }
    /// ```
    #[must_use]
    pub fn middleware<F, R>(mut self, middleware: F) -> Self
    where
        F: Fn(Ctx, Inner) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        self.around.push(middleware::boxed(middleware));
        self
    }

    /// Writes what happens on this node to `trace`, a line of JSON per event. A line that cannot be written is logged as an error.
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

    /// Time passes only as the store's clock does.
    pub(crate) fn still(mut self) -> Self {
        self.still = true;
        self
    }

    /// Changes the set-up.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Adds a pool: slots, a buffer and threads for some queues alone.
    ///
    /// ```
    /// # use turnwise_executor::executor::Builder;
    /// # fn example(builder: Builder) -> Builder {
    /// builder.pool("mail", |pool| pool.queues(["mail", "newsletter"]).core_pool_size(2).max_pool_size(8))
    /// # }
    /// ```
    #[must_use]
    pub fn pool(mut self, name: impl Into<String>, set: impl FnOnce(Pool) -> Pool) -> Self {
        self.pools.push((name.into(), set(Pool::default())));
        self
    }

    /// Checks the set-up; the node joins the fleet with [`Executor::start`]. Fails if a value is out of its bounds, or if a task
    /// needs state that was not given. Once per program, installs a panic hook that notes where tasks panic.
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
        let (hub, around) = (Hub::default(), Arc::<[Middleware]>::from(self.around));
        // A seed is for a node without other pools.
        let mut chances = std::iter::once(self.chance);
        let members = pool::members(self.config, &self.pools)?;
        let idle = Arc::new(Idle::new(members.len()));
        let logs = Arc::<Logs>::default();
        let secrets = Arc::new(self.registry.secrets());
        let members = (0..).zip(members).map(|(at, (config, serves))| Member {
            node: Arc::new(ThisNode {
                clock: DatabaseClock::new(self.still, config.lease),
                config,
                serves,
                registry: self.registry.clone(),
                secrets: secrets.clone(),
                states: self.states.clone(),
                middleware: around.clone(),
                hub: hub.clone(),
                idle: idle.clone(),
                speaks: at == 0,
                trace: self.trace.clone(),
                chance: chances.next().unwrap_or_default(),
                process: self.process.clone(),
                page: self.page,
                counters: Counters::default(),
                logs: logs.clone(),
                hold_off: HoldOff::default(),
                stop: StopSign::default(),
            }),
            running: watch::Sender::new(None),
        });
        let members = members.collect();
        let held = Parts {
            members,
            connect: self.connect,
            operators: self.operators,
            control: Mutex::new(None),
            threads: Arc::default(),
        };
        Ok(Executor(Arc::new(held)))
    }
}

/// A node. Cheap to clone; clones are the same node. Dropping the last one stops it without waiting; [`Executor::stop`] waits for
/// the work in its hands.
#[derive(Clone)]
pub struct Executor(Arc<Parts>);

struct Parts {
    /// The node's own pool, then the others.
    members: Vec<Member>,
    connect: Connect,
    operators: Option<Arc<dyn OperatorStore>>,
    /// Whether the control thread is over, while there is one.
    control: Mutex<Option<watch::Receiver<bool>>>,
    threads: Threads,
}

/// The runtimes of pools that have their own. The control thread ends them when it is through, unless they have ended before.
type Threads = Arc<Mutex<Vec<Runtime>>>;

/// A blocking task that does not heed its stop sign is not waited for: its job was given back.
fn end_all(threads: &Threads) {
    locked(threads).drain(..).for_each(Runtime::shutdown_background);
}

fn is_over(over: &watch::Receiver<bool>) -> bool {
    *over.borrow() || over.has_changed().is_err()
}

/// One pool.
#[derive(Clone)]
struct Member {
    node: Arc<ThisNode>,
    running: watch::Sender<Option<Arc<Life>>>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("name", self.name()).finish_non_exhaustive()
    }
}

impl Executor {
    /// Joins the fleet and takes work; also after a start that failed, or after [`Executor::stop`]. Must be called on the runtime
    /// that tasks shall run on, if their pool has no threads of its own. Returns when the node has joined with all its pools; the
    /// first connection is tried once, later ones for as long as it takes.
    pub async fn start(&self) -> Result<(), StartError> {
        self.note_secrets().await?;
        let (over, control) = watch::channel(false);
        {
            let mut running = locked(&self.0.control);
            // Also while it stops: both runs share one stop sign, so a stop meant for one would reach the other.
            if running.as_ref().is_some_and(|over| !is_over(over)) {
                return Err(StartError::Running);
            }
            // From here on it counts as running, until `over` is set or dropped: another `start` is refused meanwhile.
            *running = Some(control);
        }
        self.0.members.iter().for_each(|member| member.node.stop.lower());
        let all_joined = self.spawn(over).inspect_err(|_| end_all(&self.0.threads))?;
        for joined in all_joined {
            let joined = joined.await.unwrap_or_else(|_| Err(StartError::Thread("it ended early".to_owned())));
            if let Err(error) = joined {
                // A node that lacks one of its pools does not run at all.
                self.raise_stop();
                self.ended().await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Before the first job of such a task is run: from then on its secrets are hidden on every server, also when this node is gone.
    async fn note_secrets(&self) -> Result<(), StartError> {
        let secrets: &Secrets = &self.own().node.secrets;
        let Some(task) = secrets.tasks().next() else { return Ok(()) };
        let Some(operators) = &self.0.operators else {
            let problem =
                format!("task {:?} has secret fields, and this store has no place to note them", task.as_str());
            return Err(Invalid::new("secret", problem).into());
        };
        Ok(operators.note_secrets(secrets.clone()).await?)
    }

    /// Starts the threads of the node. Each receiver gets whether one of its pools has joined.
    fn spawn(&self, over: watch::Sender<bool>) -> Result<Vec<oneshot::Receiver<Result<(), StartError>>>, StartError> {
        let no_thread = |error: std::io::Error| StartError::Thread(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let connect = once(self.0.connect.clone());
        let (mut lives, mut all_joined) = (Vec::new(), Vec::new());
        for member in &self.0.members {
            let (ready, joined) = oneshot::channel();
            all_joined.push(joined);
            let floor = Floor::User(match &member.node.config.thread_name_prefix {
                Some(prefix) => {
                    let runtime = threads::start(&member.node.config, prefix).map_err(no_thread)?;
                    let handle = runtime.handle().clone();
                    locked(&self.0.threads).push(runtime);
                    handle
                }
                None => tokio::runtime::Handle::current(),
            });
            lives.push(life::live(member.node.clone(), member.running.clone(), connect.clone(), floor, Some(ready)));
        }
        let threads = self.0.threads.clone();
        thread::Builder::new()
            .name("turnwise-control".to_owned())
            .spawn(move || {
                runtime.block_on(join_all(lives));
                drop(runtime);
                end_all(&threads);
                over.send_replace(true);
            })
            .map_err(no_thread)?;
        Ok(all_joined)
    }

    fn raise_stop(&self) {
        self.0.raise_stop();
    }

    async fn ended(&self) {
        let control = locked(&self.0.control).clone();
        if let Some(mut over) = control {
            // The thread ends by itself; one that panicked is over as well.
            let _ = over.wait_for(|over| *over).await;
        }
    }

    /// For the simulator: the whole node, tasks included, as one future on the current runtime. Not polled, it is a
    /// process that was stopped; dropped, one that was killed. It ends after [`Executor::stop`] was begun.
    #[doc(hidden)]
    pub async fn live_here(&self) {
        let lives = self.0.members.iter().map(|Member { node, running }| {
            life::live(node.clone(), running.clone(), self.0.connect.clone(), Floor::Here, None)
        });
        join_all(lives).await;
    }

    /// Joins the fleet and starts nothing.
    pub(crate) async fn enter(&self) -> Result<Arc<Life>, StartError> {
        self.note_secrets().await?;
        life::enter(&self.own().node, &self.0.connect).await
    }

    /// Submits a job through this node: it starts right after its commit when there is a free slot.
    pub async fn submit(&self, job: NewJob) -> Result<Submitted, StoreError> {
        let life = self.own().running.borrow().clone();
        let store = match &life {
            Some(life) => life.store.clone(),
            None => (self.0.connect)().await?.store,
        };
        let replies = store.enqueue(vec![job]).await?;
        store.bell().ring_news();
        replies.into_iter().next().ok_or_else(|| StoreError::broken("submit", "the store gave no answer"))
    }

    /// Takes no more jobs, lets the running ones finish within the configured time, returns the others without
    /// spending an attempt, and leaves the fleet.
    pub async fn stop(&self) {
        self.raise_stop();
        self.ended().await;
    }

    /// Ends the threads of all pools that have their own, and drops the tasks on them as they stand: nothing is given back,
    /// the fleet takes it over as after a crash. Waits no longer than this for threads that block. Not to be called on a runtime.
    pub fn abandon(&self, wait: Duration) {
        let until = std::time::Instant::now() + wait;
        let threads: Vec<_> = locked(&self.0.threads).drain(..).collect();
        for runtime in threads {
            runtime.shutdown_timeout(until.saturating_duration_since(std::time::Instant::now()));
        }
    }

    fn own(&self) -> &Member {
        &self.0.members[0]
    }

    /// What happens on this node, from now on.
    pub fn events(&self) -> Events {
        self.own().node.hub.subscribe()
    }

    /// Calls `listener` for every event of `kind`, on a thread of the listeners' own, until the returned handle removes
    /// it.
    pub fn on(&self, kind: EventKind, listener: impl Fn(&Event) + Send + Sync + 'static) -> Listener {
        self.own().node.hub.listen(Some(kind), Arc::new(listener))
    }

    /// What this node has done since it was built, in all its pools together.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { settled: 0, stale: 0, lost: 0, looks: 0, rings: 0, epoch: None, lease_age: None };
        for Member { node, running } in &self.0.members {
            if let Some(life) = running.borrow().as_ref() {
                stats.epoch = stats.epoch.or(life.term.epoch().map(|epoch| epoch.0));
                stats.lease_age = stats.lease_age.max(Some(life.contact.age()));
            }
            stats.looks += node.counters.looks.load(Ordering::Relaxed);
            stats.rings += node.counters.rings.load(Ordering::Relaxed);
            stats.settled += node.counters.settled.load(Ordering::Relaxed);
            stats.stale += node.counters.stale.load(Ordering::Relaxed);
            stats.lost += node.counters.lost.load(Ordering::Relaxed);
        }
        stats
    }

    /// What each of its pools does now; a pool that is not in the fleet has no slots.
    pub fn pools(&self) -> Vec<PoolStats> {
        let pool = |Member { node, running }: &Member| {
            let life = running.borrow().clone();
            let (slots, running) = life.map_or((0, 0), |life| (life.desk.slots(), life.desk.running()));
            PoolStats { name: node.config.name.clone(), slots, running }
        };
        self.0.members.iter().map(pool).collect()
    }

    /// How many tasks run on this node now, in all its pools together.
    pub fn running(&self) -> usize {
        let lives = self.0.members.iter().filter_map(|member| member.running.borrow().clone());
        lives.map(|life| life.desk.running()).sum()
    }

    /// Which jobs those are, the oldest first, at most so many.
    pub fn running_jobs(&self, most: usize) -> Vec<(JobId, TaskName)> {
        let lives = self.0.members.iter().filter_map(|member| member.running.borrow().clone());
        let mut jobs: Vec<_> = lives.flat_map(|life| life.desk.running_jobs()).collect();
        jobs.sort_unstable();
        jobs.truncate(most);
        jobs
    }

    /// The configured name. In the fleet each other pool has a name of its own, `name/pool`.
    pub fn name(&self) -> &NodeName {
        &self.own().node.config.name
    }

    /// The bell to ring after a submit in this process; `None` while the node is not in the fleet.
    pub fn bell(&self) -> Option<Bell> {
        self.own().running.borrow().as_ref().map(|life| life.store.bell())
    }

    /// Waits until nothing is left that this node could run: it waits for due times, and for jobs in other nodes' hands, which come back
    /// if a run fails or the node turns out to be dead; not for what only a person can release.
    pub async fn drained(&self) -> Result<(), StoreError> {
        let poll = self.own().node.config.poll_interval.unwrap_or(pace::POLL).min(Duration::from_millis(200));
        while !self.drained_now().await? {
            tokio::time::sleep(poll).await;
        }
        Ok(())
    }

    /// Looks at the backlog. `true` only if no pool had anything in its hands when the look began, nor during it.
    async fn drained_now(&self) -> Result<bool, StoreError> {
        let idle = &self.own().node.idle;
        let Some(life) = self.own().running.borrow().clone() else { return Ok(false) };
        let Some(empty) = idle.empty() else { return Ok(false) };
        Ok(idle::nothing_left(&*life.store, &empty.pools, Remaining::Later).await? && idle.empty() == Some(empty))
    }
}

impl Parts {
    fn raise_stop(&self) {
        self.members.iter().for_each(|member| member.node.stop.raise());
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.raise_stop();
    }
}

/// One handle for all pools of a process, for as long as one of them holds it: they live on one thread, and connections are
/// expensive.
fn once(connect: Connect) -> Connect {
    type Held = (Weak<dyn Store>, Option<Weak<dyn OperatorStore>>);
    let held: Arc<tokio::sync::Mutex<Option<Held>>> = Arc::default();
    let again = |(store, operators): &Held| {
        Some(Connected { store: store.upgrade()?, operators: operators.as_ref().and_then(Weak::upgrade) })
    };
    Arc::new(move || {
        let (connect, held) = (connect.clone(), held.clone());
        Box::pin(async move {
            let mut held = held.lock().await;
            if let Some(connected) = held.as_ref().and_then(again) {
                return Ok(connected);
            }
            let connected = connect().await?;
            *held = Some((Arc::downgrade(&connected.store), connected.operators.as_ref().map(Arc::downgrade)));
            Ok(connected)
        })
    })
}
