//! The doorbell: one connection that listens, and comes back when it is cut.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;
use turnwise_core::Incarnation;
use turnwise_store::Bell;

use crate::connect::{Address, Purpose};

const FIRST_WAIT: Duration = Duration::from_millis(100);
/// No longer than this after the database is back; until then the users poll.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Something between here and the database may take the one and never bring the other.
const LISTEN: &str = "listen turnwise; notify turnwise, 'hello'";

/// The listening task; it ends with its owner.
pub(crate) struct Listener(JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Listener {
    pub(crate) fn start(address: Address, bell: Bell, joined: Arc<Mutex<HashSet<Incarnation>>>) -> Self {
        Self(tokio::spawn(async move {
            let mut wait = FIRST_WAIT;
            loop {
                let mut heard = false;
                if let Err(error) = listen(&address, &bell, &joined, &mut heard).await {
                    tracing::debug!(%error, "the doorbell is cut");
                }
                bell.set_hears(false);
                wait = if heard { FIRST_WAIT } else { LONGEST_WAIT.min(wait * 2) };
                tokio::time::sleep(wait).await;
            }
        }))
    }
}

async fn listen(
    address: &Address,
    bell: &Bell,
    joined: &Mutex<HashSet<Incarnation>>,
    heard: &mut bool,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = address.connect(Purpose::Listen).await?;
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let mut listening = std::pin::pin!(client.batch_execute(LISTEN));
    loop {
        tokio::select! {
            done = &mut listening, if !*heard => {
                done?;
                *heard = true;
                // Whatever rang while nobody listened.
                ring_all(bell);
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
