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
/// No longer than this after the database is back; until then the users poll.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Something between here and the database may take the one and never bring the other.
const LISTEN: &str = "listen turnwise; notify turnwise, 'hello'";

/// The session that listens has an advisory lock for as long as it is there: others look for it in `pg_locks` to see whether this
/// process is. Taken only where rings are heard: behind a pooler that hands sessions around it would say nothing.
#[derive(Debug)]
pub(crate) struct Presence {
    number: i64,
    has_lock: AtomicBool,
}

impl Default for Presence {
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        // No sign, so that it is put together again from two halves without one.
        Self { number: i64::try_from(random >> 1).unwrap_or(i64::MAX), has_lock: AtomicBool::new(false) }
    }
}

impl Presence {
    /// The lock, while it is there to be seen.
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
                let mut heard = false;
                if let Err(error) = listen(&address, &budget, &bell, &joined, &presence, &mut heard).await {
                    tracing::debug!(%error, "the doorbell is cut");
                }
                bell.set_hears(false);
                if presence.has_lock.swap(false, Ordering::AcqRel) {
                    // If this process leads, its next beat says that it cannot be seen; before another one misses it.
                    bell.ring_lead();
                }
                wait = if heard { FIRST_WAIT } else { LONGEST_WAIT.min(wait * 2) };
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
    heard: &mut bool,
) -> Result<(), tokio_postgres::Error> {
    let _counted = Counted::one(budget);
    let (client, mut connection) = address.connect(Purpose::Listen).await?;
    if address.pooled() {
        // Nobody would be called: jobs are looked for.
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
            done = &mut listening, if !*heard => {
                done?;
                *heard = true;
                // Whatever rang while nobody listened.
                ring_all(bell);
            }
            done = &mut locking, if bell.hears() && !locked => {
                done?;
                locked = true;
                presence.has_lock.store(true, Ordering::Release);
                // If this process leads, its next beat says by what it can be seen.
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
    bell.ring_lead();
}

fn ring(bell: &Bell, joined: &Mutex<HashSet<Incarnation>>, payload: &str) {
    match payload.split_once(':') {
        None if payload == "news" => bell.ring_news(),
        None if payload == "lead" => bell.ring_lead(),
        // Ours, or another's: rings do arrive here.
        None if payload == "hello" => bell.set_hears(true),
        Some(("mail", node)) => {
            let here = |node| joined.lock().unwrap_or_else(PoisonError::into_inner).contains(&Incarnation(node));
            if node.parse().is_ok_and(here) {
                bell.ring_mail();
            }
        }
        // A newer version may ring for more.
        _ => {}
    }
}
