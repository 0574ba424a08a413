//! The doorbell: one connection that listens, and comes back when it is cut.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;
use turnwise_core::Incarnation;
use turnwise_store::Bell;

use crate::connect::{Address, Budget, Counted, Purpose};

const FIRST_WAIT: Duration = Duration::from_millis(100);
/// No longer than this after the database is back; until then the users of the bell poll.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A pooler between here and the database may accept `listen` and never deliver a notification: so the session notifies itself.
const LISTEN: &str = "listen turnwise; notify turnwise, 'hello'";

/// The session that listens holds an advisory lock for as long as it exists: other processes look for it in `pg_locks` to see
/// whether this process is alive. Taken only where rings arrive: behind a pooler that hands sessions around it would mean nothing.
#[derive(Debug)]
pub(crate) struct Presence {
    number: i64,
    has_lock: AtomicBool,
}

impl Default for Presence {
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        // Never negative: `pg_locks` shows the number as two halves without a sign.
        Self { number: i64::try_from(random >> 1).unwrap_or(i64::MAX), has_lock: AtomicBool::new(false) }
    }
}

impl Presence {
    /// The lock's number, while the lock is held.
    pub(crate) fn number(&self) -> Option<i64> {
        self.has_lock.load(Ordering::Acquire).then_some(self.number)
    }
}

/// The listening task; it ends with its owner.
pub(crate) struct Listener(JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Listener {
    pub(crate) fn start(
        address: Address,
        budget: Arc<Budget>,
        bell: Bell,
        joined: Arc<Mutex<HashSet<Incarnation>>>,
        presence: Arc<Presence>,
    ) -> Self {
        Self(tokio::spawn(async move {
            let mut wait = FIRST_WAIT;
            while !address.pooled() {
                let mut connected = false;
                if let Err(error) = listen(&address, &budget, &bell, &joined, &presence, &mut connected).await {
                    tracing::debug!(%error, "the doorbell is cut");
                }
                bell.set_hears(false);
                if presence.has_lock.swap(false, Ordering::AcqRel) {
                    // If this process leads, its next beat records that it cannot be seen, before another process misses it.
                    bell.ring_lead();
                }
                wait = if connected { FIRST_WAIT } else { LONGEST_WAIT.min(wait * 2) };
                tokio::time::sleep(wait).await;
            }
        }))
    }
}

async fn listen(
    address: &Address,
    budget: &Arc<Budget>,
    bell: &Bell,
    joined: &Mutex<HashSet<Incarnation>>,
    presence: &Presence,
    connected: &mut bool,
) -> Result<(), tokio_postgres::Error> {
    let _counted = Counted::one(budget);
    let (client, mut connection) = address.connect(Purpose::Listen).await?;
    if address.pooled() {
        // No notification would arrive here: jobs are found by polling.
        return Ok(());
    }
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let mut listening = std::pin::pin!(client.batch_execute(LISTEN));
    // Shared: the server may not have noticed yet that the last session is gone.
    let lock = format!("select pg_catalog.pg_try_advisory_lock_shared({})", presence.number);
    let mut locking = std::pin::pin!(client.batch_execute(&lock));
    let mut locked = false;
    loop {
        tokio::select! {
            done = &mut listening, if !*connected => {
                done?;
                *connected = true;
                // For what rang while this process did not listen.
                ring_all(bell);
            }
            done = &mut locking, if bell.hears() && !locked => {
                done?;
                locked = true;
                presence.has_lock.store(true, Ordering::Release);
                // If this process leads, its next beat records the lock by which it can be seen.
                bell.ring_lead();
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(note))) => ring(bell, joined, note.payload()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
        }
    }
}

fn ring_all(bell: &Bell) {
    bell.ring_news();
    bell.ring_mail();
    bell.ring_for_any();
    bell.ring_lead();
}

fn ring(bell: &Bell, joined: &Mutex<HashSet<Incarnation>>, payload: &str) {
    match payload.split_once(':') {
        None if payload == "news" => bell.ring_news(),
        None if payload == "lead" => bell.ring_lead(),
        // Our own, or another process's: rings do arrive here.
        None if payload == "hello" => bell.set_hears(true),
        Some(("mail", node)) => {
            let Ok(node) = node.parse().map(Incarnation) else { return };
            bell.ring_for(node);
            if joined.lock().unwrap_or_else(PoisonError::into_inner).contains(&node) {
                bell.ring_mail();
            }
        }
        // A newer version may ring for more.
        _ => {}
    }
}
