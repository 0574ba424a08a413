//! The one reader of events. It starts with the first listener and ends with the last; what it reads, all listeners share. A listener that
//! falls behind is asked to read again: nothing waits for it, and nothing is kept for it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, broadcast, watch},
    time::{Instant, sleep_until, timeout},
};
use turnwise::{
    Fleet, Timestamp, Turnwise,
    secret::Secrets,
    watch::{AskWatch, WatchCursor, Watched},
    wire::EventType,
};

use crate::{
    limits::{
        ANSWER_TIME, BATCHES_BEHIND, CALM_LOOK, CALM_SAMPLE, EVENTS_AT_ONCE, LOOK_AGAIN, PLACE_TOLD, SAMPLE_EVERY,
        SAMPLED_JOBS,
    },
    logs::{self, Kind},
    problem::Problem,
    service::Service,
    telling::{self, Hands, Queues, Recent, Told},
};

/// The reader, if there is one, and what its listeners want.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    reader: Mutex<Option<Reader>>,
    wants: Arc<Wants>,
}

#[derive(Debug)]
struct Reader {
    /// Weak, so that listeners notice the end of the reader.
    batches: broadcast::WeakSender<Arc<Batch>>,
    /// Which requests the reader has seen; `None`: it has not begun. What happens from then on is sent.
    heard: watch::Receiver<Option<usize>>,
}

/// How many listeners want each kind of event; what none of them wants is not read.
#[derive(Debug, Default)]
struct Wants {
    kinds: [AtomicUsize; EventType::ALL.len()],
    /// How many need to get what there is, for they may have missed how it came.
    present: AtomicUsize,
    /// How many want to know at once; the others are people, who do not notice a second.
    swift: AtomicUsize,
    /// Grows with each listener.
    requests: AtomicUsize,
    /// There is a listener more.
    more: Notify,
}

impl Wants {
    fn any(&self, kinds: &[EventType]) -> bool {
        kinds.iter().any(|kind| self.kinds[*kind as usize].load(Ordering::Relaxed) > 0)
    }

    /// Time between two looks at the news, and at all else.
    fn pace(&self) -> (Duration, Duration) {
        if self.swift.load(Ordering::Relaxed) > 0 { (LOOK_AGAIN, SAMPLE_EVERY) } else { (CALM_LOOK, CALM_SAMPLE) }
    }
}

/// What was read at one look.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The places before and after it.
    pub(crate) from: Arc<str>,
    pub(crate) to: Arc<str>,
    pub(crate) told: Vec<Told>,
    /// What there is, for listeners that came back.
    pub(crate) present: Option<Vec<Told>>,
    /// Something is missing here.
    pub(crate) reset: Option<&'static str>,
    /// When it had been read: a listener that looked itself after that knows all of it.
    pub(crate) read_at: Instant,
}

impl Batch {
    /// Of one look. Its places are those of the cursors.
    pub(crate) fn of(from: Arc<str>, watched: &Watched, recent: &mut Recent, read_at: Instant) -> Self {
        let reset = match (watched.reset, watched.more) {
            (true, _) => Some(UNKNOWN),
            (_, true) => Some(TOO_MUCH),
            _ => None,
        };
        let told = telling::of_look(watched, recent);
        Self { from, to: Arc::from(watched.cursor.0.as_str()), told, present: None, reset, read_at }
    }
}

const UNKNOWN: &str = "the id is unknown or too old, or the database was restored; read again";
pub(crate) const TOO_MUCH: &str = "more happened at once than is sent one by one; read again";

/// What a listener has of the reader.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) batches: broadcast::Receiver<Arc<Batch>>,
    wants: Arc<Wants>,
    kinds: Vec<EventType>,
    present: bool,
    swift: bool,
}

impl Subscription {
    /// It got what there is.
    pub(crate) fn has_present(&mut self) {
        if std::mem::take(&mut self.present) {
            self.wants.present.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn wants_present(&self) -> bool {
        self.present
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.has_present();
        for kind in &self.kinds {
            self.wants.kinds[*kind as usize].fetch_sub(1, Ordering::Relaxed);
        }
        self.wants.swift.fetch_sub(usize::from(self.swift), Ordering::Relaxed);
    }
}

pub(crate) fn ask(cursor: Option<WatchCursor>) -> AskWatch {
    AskWatch { cursor, most: EVENTS_AT_ONCE, ends: true }
}

impl Hub {
    fn reader(&self) -> MutexGuard<'_, Option<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From when this returns on, everything that happens comes by the subscription.
    pub(crate) async fn subscribe(
        &self,
        service: &Service,
        kinds: Vec<EventType>,
        present: bool,
        swift: bool,
    ) -> Result<Subscription, Problem> {
        // A listener that comes back may have missed how things came to be as they are.
        let sampled = kinds.iter().any(|kind| is_sampled(*kind));
        let present = present && sampled;
        for kind in &kinds {
            self.wants.kinds[*kind as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.wants.present.fetch_add(usize::from(present), Ordering::Relaxed);
        self.wants.swift.fetch_add(usize::from(swift), Ordering::Relaxed);
        let request = self.wants.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let (batches, mut heard) = self.join(service);
        self.wants.more.notify_one();
        let subscription = Subscription { batches, wants: Arc::clone(&self.wants), kinds, present, swift };
        let heard = heard.wait_for(|heard| heard.is_some_and(|heard| !sampled || heard >= request));
        match timeout(ANSWER_TIME, heard).await {
            Ok(Ok(_)) => Ok(subscription),
            _ => Err(Problem::away("the database does not answer; try again")),
        }
    }

    /// The batches of the reader, which is started if there is none.
    fn join(&self, service: &Service) -> (broadcast::Receiver<Arc<Batch>>, watch::Receiver<Option<usize>>) {
        let mut reader = self.reader();
        let there = |reader: &Reader| Some((reader.batches.upgrade()?.subscribe(), reader.heard.clone()));
        if let Some(there) = reader.as_ref().and_then(there) {
            return there;
        }
        let (sender, batches) = broadcast::channel(BATCHES_BEHIND);
        let (hears, heard) = watch::channel(None);
        *reader = Some(Reader { batches: sender.downgrade(), heard: heard.clone() });
        // It ends by itself: with its last listener, or with the service.
        tokio::spawn(Reading::new(service.clone(), sender, hears).run());
        (batches, heard)
    }

    /// Whether events are being read: only while there is a listener.
    pub(crate) fn reads(&self) -> bool {
        self.reader().as_ref().is_some_and(|reader| reader.batches.upgrade().is_some())
    }
}

/// Read once a second, since it is not part of the news.
fn is_sampled(kind: EventType) -> bool {
    !matches!(kind, EventType::Submitted | EventType::Ended)
}

/// The reader's work.
struct Reading {
    service: Service,
    batches: broadcast::Sender<Arc<Batch>>,
    hears: watch::Sender<Option<usize>>,
    recent: Recent,
    /// What there was at the last look; `None` while no listener wants to know.
    hands: Option<Hands>,
    fleet: Option<Fleet>,
    queues: Option<Queues>,
    sample_at: Instant,
    told_at: Instant,
}

impl Reading {
    fn new(service: Service, batches: broadcast::Sender<Arc<Batch>>, hears: watch::Sender<Option<usize>>) -> Self {
        let now = Instant::now();
        Self {
            service,
            batches,
            hears,
            recent: Recent::default(),
            hands: None,
            fleet: None,
            queues: None,
            sample_at: now,
            told_at: now,
        }
    }

    fn turnwise(&self) -> &Turnwise {
        self.service.turnwise()
    }

    async fn run(mut self) {
        let service = self.service.clone();
        tokio::select! {
            () = self.read() => {}
            () = service.stops() => {}
        }
    }

    async fn read(&mut self) {
        let wants = Arc::clone(&self.service.hub().wants);
        let mut looked_at: Option<Instant> = None;
        let (mut cursor, mut failing): (Option<WatchCursor>, bool) = (None, false);
        while self.has_listeners() {
            if let Some(last) = looked_at {
                tokio::select! {
                    () = sleep_until(last + wants.pace().0) => {}
                    // It waits to hear that it misses nothing from here on; but no crowd of them makes the looks more frequent.
                    () = wants.more.notified() => sleep_until(last + LOOK_AGAIN).await,
                }
            }
            looked_at = Some(Instant::now());
            match self.look(cursor.as_ref()).await {
                Ok(next) => (cursor, failing) = (Some(next), false),
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "events cannot be read; the server goes on trying");
                    }
                    tokio::time::sleep(SAMPLE_EVERY).await;
                }
            }
        }
    }

    /// Without one, no listener can subscribe to this reader any more.
    fn has_listeners(&self) -> bool {
        let mut reader = self.service.hub().reader();
        let any = self.batches.receiver_count() > 0;
        if !any {
            *reader = None;
        }
        any
    }

    /// Reads what has happened since and sends it; returns where to go on.
    async fn look(&mut self, last: Option<&WatchCursor>) -> Result<WatchCursor, turnwise::Error> {
        let watched = self.turnwise().watch(ask(last.cloned())).await?;
        let from = Arc::from(last.unwrap_or(&watched.cursor).0.as_str());
        let mut batch = Batch::of(from, &watched, &mut self.recent, Instant::now());
        let request = self.service.hub().wants.requests.load(Ordering::Relaxed);
        let news = *self.hears.borrow() != Some(request);
        let sampled = if news || Instant::now() >= self.sample_at {
            self.sample_at = Instant::now() + self.service.hub().wants.pace().1;
            self.sample(watched.now, &mut batch).await
        } else {
            Ok(())
        };
        let quiet = batch.told.is_empty() && batch.present.is_none() && batch.reset.is_none();
        if !quiet || self.told_at.elapsed() >= PLACE_TOLD {
            self.told_at = Instant::now();
            // No listener: the reader ends with the next look.
            let _ = self.batches.send(Arc::new(batch));
        }
        match sampled {
            Ok(()) if news => drop(self.hears.send_replace(Some(request))),
            Ok(()) => {}
            Err(error) if logs::may(Kind::Sample) => {
                tracing::warn!(%error, "nodes, queues or jobs in hand could not be read for listeners");
            }
            Err(_) => {}
        }
        Ok(watched.cursor)
    }

    /// What is not in the news: read, and compared with how it was.
    async fn sample(&mut self, at: Timestamp, batch: &mut Batch) -> Result<(), turnwise::Error> {
        let (turnwise, wants) = (self.turnwise().clone(), Arc::clone(&self.service.hub().wants));
        let present_wanted = wants.present.load(Ordering::Relaxed) > 0;
        let mut present = Vec::new();
        let mut hands = None;
        if wants.any(&[EventType::Started, EventType::Progress]) {
            let held = turnwise.in_hands(SAMPLED_JOBS).await?;
            let secrets = if held.jobs.is_empty() { Secrets::default() } else { turnwise.secrets().await? };
            if let Some(before) = &self.hands {
                batch.told.extend(before.tell(&held, &secrets));
            }
            if present_wanted {
                present.extend(Hands::default().tell(&held, &secrets));
            }
            hands = Some(Hands::of(&held));
        }
        self.hands = hands;
        let mut fleet = None;
        if wants.any(&[EventType::Node, EventType::Dispatcher]) {
            let now = turnwise.nodes().await?;
            if let Some(before) = &self.fleet {
                batch.told.extend(telling::of_fleet(before, &now));
            }
            if present_wanted {
                present.extend(telling::all_of_fleet(&now));
            }
            fleet = Some(now);
        }
        self.fleet = fleet;
        let mut queues = None;
        if wants.any(&[EventType::Queue]) {
            let now = turnwise.queue_settings().await?;
            if let Some(before) = &self.queues {
                batch.told.extend(telling::of_queues(at, before, &now));
            }
            if present_wanted {
                present.extend(telling::all_queues(at, &now));
            }
            queues = Some(now);
        }
        self.queues = queues;
        batch.present = present_wanted.then_some(present);
        Ok(())
    }
}

/// How long a browser waits before it connects again.
pub(crate) const RECONNECT: Duration = Duration::from_secs(1);
