//! The database as a process sees it: over a network, with a clock of its own, and not always there.
//!
//! A call is a message there and a message back. Each travels by itself: what was sent arrives although its sender has
//! been killed or stopped meanwhile, and a call whose sender already got an error may still be on its way. The store
//! itself is called in one go, without anything else running, so that the order of commits depends on the seed alone.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use turnwise_core::{Incarnation, JobId, NewJob, Timestamp};
use turnwise_store::{
    AskNews, Assign, AssignReply, Bell, Epoch, Intervention, Load, NewMemo, News, Page, Settle, Settled, Store,
    StoreError, Submitted,
    delegate::{Call, Delegate},
    memory::Clock,
};

use super::{chance::Chance, ledger::Ledger};

type Answer<T> = turnwise_store::Result<T>;

/// Database time at the beginning: long past by any machine's clock, so that a node's own first guess never matters.
const BEGIN: i64 = 1_000_000_000_000_000;
/// How long a caller waits for an answer that does not come.
const PATIENCE: Duration = Duration::from_millis(700);

/// How good the network is.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    /// Longest delay of a message there or back, in milliseconds.
    pub(crate) delay: u64,
    /// Share of messages there that are lost.
    pub(crate) lost: f64,
    /// Share of messages back that are lost.
    pub(crate) unanswered: f64,
    /// Share of messages there that arrive after their sender got an error.
    pub(crate) late: f64,
    /// Share of rings that are lost.
    pub(crate) unheard: f64,
    /// Share of rings that arrive twice.
    pub(crate) doubled: f64,
    /// No process reaches the database.
    pub(crate) outage: bool,
}

impl Weather {
    pub(crate) fn fair(delay: u64) -> Self {
        Self { delay, lost: 0.0, unanswered: 0.0, late: 0.0, unheard: 0.0, doubled: 0.0, outage: false }
    }
}

/// The database, and the way to it.
pub(crate) struct Network {
    store: Arc<dyn Store>,
    clock: Arc<AtomicI64>,
    /// How far the database's clock is ahead of the beginning plus what has passed since, in micros.
    skew: AtomicI64,
    begun: Instant,
    chance: Mutex<Chance>,
    weather: Mutex<Weather>,
    processes: Mutex<BTreeMap<u64, Arc<Process>>>,
    pub(crate) ledger: Mutex<Ledger>,
    /// Every call, when it was made and what became of it; for people, and to compare two runs.
    log: Mutex<String>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}

/// One process: whatever calls the database from one place and dies in one piece.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: u64,
    pub(crate) name: String,
    bell: Bell,
    frozen: AtomicBool,
    /// How often it was stopped or went on.
    turns: AtomicU64,
    killed: AtomicBool,
    /// Cut off from the database.
    pub(crate) cut: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// It is killed right before or after the database next does this for it.
    doom: Mutex<Option<Doom>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doom {
    pub(crate) verb: &'static str,
    pub(crate) after: bool,
}

impl Process {
    pub(crate) fn new(id: u64, name: &str) -> Arc<Self> {
        Arc::new(Self {
            id,
            name: name.to_owned(),
            bell: Bell::default(),
            frozen: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            waker: Mutex::default(),
            doom: Mutex::default(),
        })
    }

    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// Changes whenever it is stopped.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    pub(crate) fn doom(&self, doom: Option<Doom>) {
        *locked(&self.doom) = doom;
    }

    fn wake(&self) {
        if let Some(waker) = locked(&self.waker).take() {
            waker.wake();
        }
    }
}

/// What a process does, as long as it is neither stopped nor killed.
pub(crate) struct Alive<F> {
    process: Arc<Process>,
    doing: Option<Pin<Box<F>>>,
}

impl<F> Alive<F> {
    pub(crate) fn new(process: Arc<Process>, doing: F) -> Self {
        Self { process, doing: Some(Box::pin(doing)) }
    }
}

impl<F: Future<Output = ()>> Future for Alive<F> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.process.is_killed() {
            self.doing = None;
            return Poll::Ready(());
        }
        *locked(&self.process.waker) = Some(context.waker().clone());
        if self.process.frozen.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        match &mut self.doing {
            Some(doing) => doing.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

impl Network {
    /// `open` makes the store, which takes the time from the given clock.
    pub(crate) fn new(seed: u64, ledger: Ledger, open: impl FnOnce(Clock) -> Arc<dyn Store>) -> Arc<Self> {
        let clock = Arc::new(AtomicI64::new(BEGIN));
        let hand = clock.clone();
        let store = open(Clock::new(move || Timestamp::from_micros(hand.load(Ordering::Relaxed))));
        Arc::new(Self {
            store,
            clock,
            skew: AtomicI64::new(0),
            begun: Instant::now(),
            chance: Mutex::new(Chance::new(seed, 2)),
            weather: Mutex::new(Weather::fair(1)),
            processes: Mutex::default(),
            ledger: Mutex::new(ledger),
            log: Mutex::default(),
        })
    }

    /// What has passed since the beginning, in virtual time: clocks that are changed do not matter.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(BEGIN + passed + self.skew.load(Ordering::Relaxed))
    }

    /// Moves the database's clock.
    pub(crate) fn jump(&self, millis: i64) {
        self.skew.fetch_add(millis * 1_000, Ordering::Relaxed);
        locked(&self.ledger).clock_was_changed(self.elapsed());
        if millis < 0 {
            locked(&self.ledger).clock_was_set_back();
        }
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        *locked(&self.weather) = weather;
    }

    pub(crate) fn weather(&self) -> Weather {
        locked(&self.weather).clone()
    }

    /// From now on rings reach the process.
    pub(crate) fn attach(self: &Arc<Self>, process: &Arc<Process>) -> SimStore {
        locked(&self.processes).insert(process.id, process.clone());
        SimStore { network: self.clone(), process: process.clone() }
    }

    pub(crate) fn detach(&self, process: &Process) {
        locked(&self.processes).remove(&process.id);
    }

    /// Whether this process has neither ended nor been killed.
    pub(crate) fn lives(&self, id: u64) -> bool {
        locked(&self.processes).get(&id).is_some_and(|process| !process.is_killed())
    }

    pub(crate) fn note(&self, line: fmt::Arguments<'_>) {
        use fmt::Write as _;
        // Writing to a string does not fail.
        let _ = writeln!(locked(&self.log), "{:>10.3} {line}", self.elapsed().as_secs_f64());
    }

    pub(crate) fn take_log(&self) -> String {
        std::mem::take(&mut locked(&self.log))
    }

    /// Calls the store in one go, at the database's time.
    pub(crate) fn at_once<T>(&self, call: impl Future<Output = T>) -> T {
        self.clock.store(self.now().micros(), Ordering::Relaxed);
        block_on(call)
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Passes the store's rings on to every process: once, twice or not at all.
    fn pass_on_rings(&self) {
        let bell = self.store.bell();
        type Door = (fn(&Bell) -> &Arc<Notify>, fn(&Bell));
        let doors: [Door; 3] = [
            (|bell| &bell.news, Bell::ring_news),
            (|bell| &bell.mail, Bell::ring_mail),
            (|bell| &bell.lead, Bell::ring_lead),
        ];
        for (door, ring) in doors {
            if door(&bell).notified().now_or_never().is_none() {
                continue;
            }
            let processes: Vec<_> = locked(&self.processes).values().cloned().collect();
            for process in processes {
                let (weather, mut chance) = (self.weather(), locked(&self.chance));
                if weather.outage || chance.says(weather.unheard) {
                    continue;
                }
                let times = if chance.says(weather.doubled) { 2 } else { 1 };
                for _ in 0..times {
                    let (delay, bell) = (chance.millis(0, weather.delay), process.bell.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        ring(&bell);
                    });
                }
            }
        }
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    Lost,
    Unanswered,
    Late,
}

/// The database, as one process reaches it.
#[derive(Debug, Clone)]
pub(crate) struct SimStore {
    network: Arc<Network>,
    process: Arc<Process>,
}

impl SimStore {
    async fn call<T: Send + 'static>(
        &self,
        verb: &'static str,
        call: Call<T>,
        observe: impl FnOnce(&mut Ledger, Duration, &T) + Send + 'static,
    ) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let (network, process) = (self.network.clone(), self.process.clone());
        tokio::spawn(async move { travel(network, process, verb, call, observe, reply).await });
        match answer.await {
            Ok(answer) => answer,
            // No message back will ever come: the caller waits until it is dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

/// A message there, the deed, a message back.
async fn travel<T: Send + 'static>(
    network: Arc<Network>,
    process: Arc<Process>,
    verb: &'static str,
    call: Call<T>,
    observe: impl FnOnce(&mut Ledger, Duration, &T) + Send + 'static,
    reply: oneshot::Sender<Answer<T>>,
) {
    let mut reply = Some(reply);
    let mut answer = |answer: Answer<T>| {
        // An answer to a process that is gone is dropped.
        drop(reply.take().map(|reply| reply.send(answer)));
    };
    let unreachable = || StoreError::transient("reach the database", "the network does not answer");
    let (fate, there, back, late) = {
        let (weather, mut chance) = (network.weather(), locked(&network.chance));
        let fate = if chance.says(weather.lost) {
            Fate::Lost
        } else if chance.says(weather.unanswered) {
            Fate::Unanswered
        } else if chance.says(weather.late) {
            Fate::Late
        } else {
            Fate::Fine
        };
        let delay = weather.delay;
        (fate, chance.millis(0, delay), chance.millis(0, delay), chance.millis(1, 600))
    };
    tokio::time::sleep(there).await;
    let cut = || network.weather().outage || process.cut.load(Ordering::Relaxed);
    if fate == Fate::Lost || cut() {
        network.note(format_args!("{} {verb}: lost on the way", process.name));
        tokio::time::sleep(PATIENCE.min(back * 4)).await;
        return answer(Err(unreachable()));
    }
    if fate == Fate::Late {
        answer(Err(unreachable()));
        tokio::time::sleep(late).await;
        if cut() {
            return;
        }
    }
    let doom = locked(&process.doom).filter(|doom| doom.verb == verb && !process.is_killed());
    if let Some(Doom { after: false, .. }) = doom {
        network.note(format_args!("{} dies before its {verb}", process.name));
        return process.kill();
    }
    let done = network.at_once(call);
    let outcome = match &done {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    };
    network.note(format_args!(
        "{} {verb}: {outcome}{}",
        process.name,
        match fate {
            Fate::Fine => "",
            Fate::Late => ", after its sender gave up",
            Fate::Unanswered => ", and the answer is lost",
            Fate::Lost => unreachable!("dealt with above"),
        }
    ));
    if let Ok(done) = &done {
        observe(&mut locked(&network.ledger), network.elapsed(), done);
    }
    network.pass_on_rings();
    if let Some(Doom { after: true, .. }) = doom {
        network.note(format_args!("{} dies after its {verb}", process.name));
        return process.kill();
    }
    tokio::time::sleep(back).await;
    match fate {
        Fate::Fine if !cut() => answer(done),
        _ => answer(Err(unreachable())),
    }
}

#[async_trait]
impl Delegate for SimStore {
    fn inner(&self) -> Arc<dyn Store> {
        self.network.store.clone()
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        _: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Answer<T> {
        self.call(verb, call, |_, _, _| {}).await
    }

    fn bell(&self) -> Bell {
        self.process.bell.clone()
    }

    // Calls that the ledger observes.

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Answer<Vec<Submitted>> {
        let (store, asked) = (self.inner(), jobs.clone());
        let call = Box::pin(async move { store.enqueue(jobs).await });
        self.call("enqueue", call, move |ledger, at, answer| ledger.enqueued(at, &asked, answer)).await
    }

    async fn load(&self, load: Load) -> Answer<Page> {
        let (store, asked) = (self.inner(), load.clone());
        let call = Box::pin(async move { store.load(load).await });
        self.call("load", call, move |ledger, at, answer| ledger.loaded(at, &asked, answer)).await
    }

    async fn news(&self, ask: AskNews) -> Answer<News> {
        let (store, asked) = (self.inner(), ask.clone());
        let call = Box::pin(async move { store.news(ask).await });
        self.call("news", call, move |ledger, at, answer| ledger.news_read(at, &asked, answer)).await
    }

    async fn assign(&self, assign: Assign) -> Answer<Vec<(JobId, AssignReply)>> {
        let (store, asked) = (self.inner(), assign.clone());
        let call = Box::pin(async move { store.assign(assign).await });
        self.call("assign", call, move |ledger, at, answer| ledger.assigned(at, &asked, answer)).await
    }

    async fn settle(&self, settle: Settle) -> Answer<Vec<Settled>> {
        let (store, asked) = (self.inner(), settle.clone());
        let call = Box::pin(async move { store.settle(settle).await });
        self.call("settle", call, move |ledger, at, answer| ledger.settled(at, &asked, answer)).await
    }

    async fn control(&self, interventions: Vec<Intervention>) -> Answer<Vec<Settled>> {
        let (store, asked) = (self.inner(), interventions.clone());
        let call = Box::pin(async move { store.control(interventions).await });
        self.call("control", call, move |ledger, at, answer| ledger.controlled(at, &asked, answer)).await
    }

    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Answer<Vec<bool>> {
        let (store, asked) = (self.inner(), (lead, memos.clone()));
        let call = Box::pin(async move { store.remember(lead, memos).await });
        self.call("remember", call, move |ledger, at, answer| ledger.remembered(at, &asked, answer)).await
    }
}

/// Waits on this thread, however long it takes: the drivers answer from threads of their own.
fn block_on<T>(call: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // Tokio's channels would otherwise make a busy task wait for its next turn, which cannot come before this returns.
    let mut call = pin!(tokio::task::unconstrained(call));
    loop {
        match call.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// A panic of simulated code is reported elsewhere; the data behind the mutex is still in order.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
