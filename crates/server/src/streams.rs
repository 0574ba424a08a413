//! Answers that do not end by themselves, as server-sent events: how many there may be, how they are written, and when they end.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::time::{Instant, timeout};
use turnwise::{access::TokenId, wire::Event};

use crate::{
    access::Caller,
    limits::{ASK_AGAIN, KEEP_ALIVE, READY_TIME, STREAMS, STREAMS_OF_ONE},
    problem::Problem,
    service::Service,
    telling,
};

/// The header with the id of the last event that a listener got; browsers send it by themselves.
pub(crate) const LAST_EVENT: &str = "Last-Event-ID";

/// How many streams there are, by the token of their callers.
#[derive(Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<Option<TokenId>, usize>>>);

/// The place of one stream; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Mutex<HashMap<Option<TokenId>, usize>>>,
    of: Option<TokenId>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    pub(crate) fn place(&self, caller: &Caller) -> Result<Place, Problem> {
        let (mut all, of) = (open(&self.0), caller.token());
        if all.values().sum::<usize>() >= STREAMS {
            return Err(Problem::busy(format!("there are {STREAMS} open streams, and no more are served")));
        }
        let own = all.entry(of).or_default();
        if *own >= STREAMS_OF_ONE {
            let text = format!("this caller has {STREAMS_OF_ONE} open streams, and no more are served to one token");
            return Err(Problem::busy(text));
        }
        *own += 1;
        Ok(Place { all: Arc::clone(&self.0), of })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = open(&self.all);
        if let Some(count) = all.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.of);
            }
        }
    }
}

/// What a stream has written and not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Frames(String);

impl Frames {
    /// How long a browser waits before it connects again.
    pub(crate) fn retry(&mut self, after: Duration) {
        let _ = writeln!(self.0, "retry: {}\n", after.as_millis());
    }

    /// `json` is on one line.
    pub(crate) fn event(&mut self, name: &str, id: Option<&str>, json: &str) {
        let _ = writeln!(self.0, "event: {name}");
        if let Some(id) = id {
            let _ = writeln!(self.0, "id: {id}");
        }
        let _ = writeln!(self.0, "data: {json}\n");
    }

    /// Sends the place that has been reached; no event.
    pub(crate) fn id(&mut self, id: &str) {
        let _ = writeln!(self.0, "id: {id}\n");
    }

    /// Nothing, to find out whether the listener is still there, and to keep proxies from closing the connection.
    pub(crate) fn keep_alive(&mut self) {
        self.0.push_str(": keep-alive\n\n");
    }

    pub(crate) fn reset(&mut self, id: &str, reason: &str) {
        self.event("reset", Some(id), &telling::json(&Event::Reset { reason }));
    }

    pub(crate) fn closed(&mut self, reason: &str) {
        self.event("closed", None, &telling::json(&Event::Closed { reason }));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is to be sent now, if anything is.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| Bytes::from(std::mem::take(&mut self.0)))
    }
}

/// What goes on meanwhile: the caller's token is looked at again, and the connection is kept alive.
pub(crate) struct Upkeep {
    caller: Caller,
    ask_at: Instant,
    alive_at: Instant,
}

impl Upkeep {
    pub(crate) fn new(caller: Caller) -> Self {
        let now = Instant::now();
        Self { caller, ask_at: now + ASK_AGAIN, alive_at: now + KEEP_ALIVE }
    }

    /// When there is something to be done.
    pub(crate) fn next(&self) -> Instant {
        self.ask_at.min(self.alive_at)
    }

    /// Something was sent just now.
    pub(crate) fn sent(&mut self) {
        self.alive_at = Instant::now() + KEEP_ALIVE;
    }

    /// Does what is due; the reason if the caller may not listen any longer.
    pub(crate) async fn run(&mut self, service: &Service, frames: &mut Frames) -> Result<(), String> {
        let now = Instant::now();
        if now >= self.alive_at {
            frames.keep_alive();
            self.sent();
        }
        if now >= self.ask_at {
            self.ask_at = now + ASK_AGAIN;
            // A database that does not answer revokes nothing; it is asked again soon.
            let asked = timeout(READY_TIME, service.door().again(service.turnwise(), &self.caller)).await;
            if let Ok(Err(problem)) = asked
                && let Some(reason) = problem.unauthorized_because()
            {
                return Err(reason.to_owned());
            }
        }
        Ok(())
    }
}

/// Something that gives the parts of a stream, one after the other; `None`: it is over.
pub(crate) trait Source: Send + 'static {
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The body of an answer that goes on until its source is over, or the caller leaves.
pub(crate) fn body(source: impl Source) -> Body {
    let parts = stream::unfold(source, async |mut source| {
        let part = source.next().await?;
        Some((Ok::<_, Infallible>(part), source))
    });
    Body::from_stream(parts)
}
