//! One life of a node: from joining the fleet to leaving it or being declared lost. It holds the parts that the loops share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use turnwise_core::{Incarnation, JobId, job::AssignedJob, story::Finished};
use turnwise_store::{AskStory, Bell, Lineage, OperatorStore, Store, StoreError};

use crate::{
    backoff::Backoff,
    beat,
    contact::Contact,
    contain::{self, caught, contained},
    desk::Desk,
    dispatcher, doubt,
    executor::{Connect, Connected, StartError},
    idle, mail,
    outbox::{Ended, Outbox, Outgoing},
    run::Run,
    settle::{self, notes::Noting},
    stop_sign::StopSign,
    term::Term,
    this_node::ThisNode,
    trace::{Line, Record},
    worker::{self, Floor},
};

#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) node: Arc<ThisNode>,
    pub(crate) store: Arc<dyn Store>,
    /// Where the dispatcher writes what only operators read; `None`: nowhere.
    pub(crate) operators: Option<Arc<dyn OperatorStore>>,
    pub(crate) incarnation: Incarnation,
    /// Its own copy of the bell: every ring reaches each node of this process.
    pub(crate) bell: Bell,
    pub(crate) contact: Contact,
    pub(crate) desk: Desk,
    pub(crate) outbox: Outbox,
    pub(crate) noting: Noting,
    pub(crate) term: Term,
    /// No new jobs: the node stops, or was declared lost.
    pub(crate) draining: StopSign,
    /// No new jobs as long as a person wants that; what it has in hand it goes on with.
    pub(crate) drained: AtomicBool,
    /// The node is about to leave the fleet.
    pub(crate) leaving: StopSign,
    /// The life is over: its workers and loops end.
    pub(crate) over: StopSign,
    /// The database may list jobs as in this node's hands that are not here.
    pub(crate) unsure: AtomicBool,
}

impl Life {
    fn new(node: Arc<ThisNode>, connected: Connected, incarnation: Incarnation, joined: Instant) -> Self {
        let Connected { store, operators } = connected;
        Self {
            bell: store.bell().another(),
            contact: Contact::new(node.config.lease, joined),
            desk: Desk::new(node.config.pool()),
            outbox: Outbox::new(node.config.batch_size),
            node,
            store,
            operators,
            incarnation,
            noting: Noting::default(),
            term: Term::default(),
            draining: StopSign::default(),
            drained: AtomicBool::new(false),
            leaving: StopSign::default(),
            over: StopSign::default(),
            unsure: AtomicBool::new(false),
        }
    }

    pub(crate) fn trace(&self, record: impl FnOnce() -> Record) {
        if self.node.trace.is_on() {
            let line = Line {
                at: self.node.clock.now(),
                node: &self.node.config.name,
                incarnation: self.incarnation,
                record: record(),
            };
            self.node.trace.write(&line);
        }
    }

    /// The database has answered a beat that was `sent` then.
    pub(crate) fn heard(&self, sent: Instant, lineage: Lineage) {
        self.contact.heard(sent);
        self.desk.wake_all_workers();
        // A database that may have taken back commits may list jobs as in this node's hands that were settled already, or whose
        // mail was removed: no node would ever run or settle them.
        if self.desk.heard_from(lineage) {
            self.contact.begins_anew();
            tracing::warn!("the database has been failed over or restored; checking which jobs it lists as here");
            self.unsure.store(true, Ordering::Release);
            self.bell.ring_mail();
        }
    }

    /// Whether there is no more point in repeating what the store does not answer: the node was declared lost, or is to
    /// stop while the store is out of reach. The dispatcher takes over what could not be written.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.contact.is_lost() || (self.node.stop.is_up() && !self.contact.holds())
    }

    /// The next job for a worker; `None` when the life is over. Jobs that arrive while the node drains go back, so that no run
    /// begins that could not end.
    pub(crate) async fn next_job(&self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        let may_begin = || Instant::now() < self.contact.doubt_at() && !self.draining.is_up();
        self.desk.next(&self.over, may_begin).await
    }

    /// The run is over; the settle loop takes it from here.
    pub(crate) fn ended(&self, ended: Ended) {
        if self.desk.end(&ended.job, ended.run.as_deref()) {
            self.outbox.send(Outgoing::Ended(ended));
        } else {
            self.desk.abandoned_returned();
        }
    }

    /// Hands back jobs that no worker has started for `age`. How many they were.
    pub(crate) fn hand_back(&self, age: Duration) -> usize {
        let unbegun = self.desk.take_unbegun(age);
        let count = unbegun.len();
        unbegun.into_iter().for_each(|job| self.ended(Ended::unbegun(job)));
        count
    }

    pub(crate) fn has_nothing(&self) -> bool {
        self.desk.count() == 0 && self.outbox.is_empty()
    }

    /// Hands back what has not begun, and waits until nothing is in this node's hands and all of it is written.
    pub(crate) async fn nothing_held(&self) {
        self.hand_back(Duration::ZERO);
        while !self.has_nothing() {
            tokio::time::sleep(Duration::from_millis(5)).await;
            // Jobs that were on their way when the node began to drain go back too.
            self.hand_back(Duration::ZERO);
        }
    }

    /// Results of finished steps, as earlier runs have left them.
    pub(crate) async fn read_steps(&self, job: JobId) -> Result<Vec<Finished>, StoreError> {
        let mut backoff = Backoff::default();
        loop {
            match self.store.story(AskStory { job, after: None, lines: 0 }).await {
                Ok(story) => return Ok(story.steps),
                Err(error) if error.is_transient() && !self.over.is_up() => backoff.wait(&self.node.chance).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The control thread: one life after the other, until the node is to stop.
pub(crate) async fn live(
    node: Arc<ThisNode>,
    running: watch::Sender<Option<Arc<Life>>>,
    connect: Connect,
    floor: Floor,
    mut ready: Option<oneshot::Sender<Result<(), StartError>>>,
) {
    let mut backoff = Backoff::default();
    while !node.stop.is_up() {
        let entered = caught(enter(&node, &connect)).await.unwrap_or_else(|panic| {
            let error = contain::say(&node, "join", &*panic);
            Err(StartError::Thread(format!("joining the fleet panicked: {error}")))
        });
        let life = match entered {
            Ok(life) => life,
            Err(error) => match ready.take() {
                Some(ready) => return drop(ready.send(Err(error))),
                None => {
                    node.logs.no_answer("could not join the fleet again", &error);
                    backoff.wait(&node.chance).await;
                    continue;
                }
            },
        };
        backoff = Backoff::default();
        running.send_replace(Some(life.clone()));
        live_once(&life, &floor, ready.take()).await;
        if life.contact.is_lost() && !node.stop.is_up() {
            node.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
        running.send_replace(None);
    }
}

pub(crate) async fn enter(node: &Arc<ThisNode>, connect: &Connect) -> Result<Arc<Life>, StartError> {
    let connected = connect().await?;
    let (incarnation, sent) = beat::join(node, &*connected.store).await?;
    let life = Arc::new(Life::new(node.clone(), connected, incarnation, sent));
    node.idle.enter(&life);
    life.trace(|| Record::Join { slots: node.config.max_pool_size() });
    Ok(life)
}

/// Times a node winds down, should that panic.
const LEAVE_TRIES: u32 = 3;

/// From the first beat to the last settle.
async fn live_once(life: &Arc<Life>, floor: &Floor, ready: Option<oneshot::Sender<Result<(), StartError>>>) {
    let (lead, leads) = watch::channel(None);
    let beating = async move {
        contained(life, "beat", || beat::beat(life, &lead)).await;
        // No further beat will report whether this node leads.
        drop(lead);
    };
    let loops = async {
        tokio::join!(
            beating,
            contained(life, "mail", || mail::mail(life.clone())),
            contained(life, "doubt", || doubt::doubt(life.clone())),
            contained(life, "idle", || idle::watch(life.clone())),
            dispatcher::dispatch(life.clone(), leads),
            contained(life, "settle", || settle::settle(life.clone())),
        )
    };
    let story = async {
        if let Some(ready) = ready {
            // An error means that the caller of `start` has dropped it and waits no longer.
            let _ = ready.send(Ok(()));
        }
        tokio::select! {
            biased;
            () = life.node.stop.wait() => life.draining.raise(),
            () = life.draining.wait() => {}
        }
        let mut left = false;
        let leave = async || {
            wind_down(life).await;
            life.node.logs.tell_rest();
            life.contact.is_lost() || beat::leave(life).await
        };
        for _ in 0..LEAVE_TRIES {
            match caught(leave()).await {
                Ok(gone) => {
                    left = gone;
                    break;
                }
                Err(panic) => contain::panicked(life, "leave", &*panic),
            }
        }
        life.over.raise();
        left
    };
    let story = async {
        let ((), left) = tokio::join!(worker::work_until_over(life, floor), story);
        life.outbox.wake();
        left
    };
    let (_, left) = tokio::join!(loops, story);
    if !left && let Err(panic) = caught(beat::leave_at_last(life)).await {
        contain::panicked(life, "leave", &*panic);
    }
}

/// Hands back what has not begun, lets the rest finish if there is time, interrupts what is left, and waits until all
/// of it is written.
async fn wind_down(life: &Life) {
    let config = &life.node.config;
    // What the dispatcher of this process has on its way comes first, so that it is handed back with the rest.
    let _ = tokio::time::timeout(config.lease, life.term.ended()).await;
    life.hand_back(Duration::ZERO);
    let lost = life.contact.is_lost();
    if config.wait_for_tasks_on_shutdown && !lost {
        let _ = tokio::time::timeout(config.await_termination, life.nothing_held()).await;
    }
    life.hand_back(Duration::ZERO);
    life.desk.interrupt();
    // What is left now is a task that does not stop or a store out of reach; neither may keep the process from ending.
    let _ = tokio::time::timeout(config.lease.max(Duration::from_secs(2)), life.nothing_held()).await;
}
