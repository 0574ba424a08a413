//! The open connections: how many there may be in all and of one token, and which one is let go for a newcomer when there is room for no more.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep},
};
use turnwise::access::TokenId;

use crate::{limits::ACCEPT_PAUSE, problem::Problem};

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Arc<Semaphore>,
    /// Of one token.
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By number.
    all: HashMap<u64, State>,
    /// How many each token has.
    of: HashMap<TokenId, usize>,
}

#[derive(Debug)]
struct State {
    /// Since when no request is under way; a connection that has sent none yet rests, too.
    resting: Option<Instant>,
    /// The one that the last request came with.
    token: Option<TokenId>,
    let_go: Arc<Notify>,
}

/// One connection; its place is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Opened {
    connection: Connection,
    let_go: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

/// One connection, as its requests know it.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    all: Arc<Connections>,
    number: u64,
}

/// A request under way on a connection, until its answer was taken to be sent.
#[derive(Debug)]
pub(crate) struct UnderWay(Connection);

impl Connections {
    /// So many at a time; half of them may be of one token.
    pub(crate) fn at_most(places: usize) -> Arc<Self> {
        let open = Mutex::default();
        Arc::new(Self { places: Arc::new(Semaphore::new(places)), most: (places / 2).max(1), open })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that has come. If there is none, the one is closed that has rested longest; while a request is under way on
    /// each of them, the newcomer waits.
    pub(crate) async fn admit(self: &Arc<Self>) -> Opened {
        let place = loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                break place;
            }
            self.let_one_go();
            tokio::select! {
                place = Arc::clone(&self.places).acquire_owned() => break place.expect("it is never closed"),
                // By then another one may rest.
                () = sleep(ACCEPT_PAUSE) => {}
            }
        };
        let let_go = Arc::new(Notify::new());
        let mut open = self.open();
        open.next += 1;
        let number = open.next;
        open.all.insert(number, State { resting: Some(Instant::now()), token: None, let_go: Arc::clone(&let_go) });
        Opened { connection: Connection { all: Arc::clone(self), number }, let_go, _place: place }
    }

    fn let_one_go(&self) {
        let mut open = self.open();
        let resting = open.all.iter_mut().filter(|(_, state)| state.resting.is_some());
        if let Some((_, longest)) = resting.min_by_key(|(number, state)| (state.resting, **number)) {
            // Not a second time.
            longest.resting = None;
            longest.let_go.notify_one();
        }
    }
}

impl Opened {
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Waits until the place is needed for a newcomer.
    pub(crate) async fn let_go(&self) {
        self.let_go.notified().await;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = self.connection.all.open();
        let token = open.all.remove(&self.connection.number).and_then(|state| state.token);
        open.leave(token);
    }
}

impl Open {
    fn leave(&mut self, token: Option<TokenId>) {
        let Some(token) = token else { return };
        if let Some(count) = self.of.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&token);
            }
        }
    }
}

impl Connection {
    /// A request has come.
    pub(crate) fn begin(&self) -> UnderWay {
        self.rest(None);
        UnderWay(self.clone())
    }

    fn rest(&self, since: Option<Instant>) {
        if let Some(state) = self.all.open().all.get_mut(&self.number) {
            state.resting = since;
        }
    }

    /// The request that is under way comes with this token: the connection counts as the token's until one comes with another.
    pub(crate) fn belongs_to(&self, token: TokenId) -> Result<(), Problem> {
        let mut open = self.all.open();
        let Some(before) = open.all.get(&self.number).map(|state| state.token) else { return Ok(()) };
        if before == Some(token) {
            return Ok(());
        }
        let most = self.all.most;
        if open.of.get(&token).is_some_and(|count| *count >= most) {
            let text = format!("{most} connections are open with this token, and no more are served");
            return Err(Problem::busy(text));
        }
        open.leave(before);
        *open.of.entry(token).or_default() += 1;
        if let Some(state) = open.all.get_mut(&self.number) {
            state.token = Some(token);
        }
        Ok(())
    }
}

impl UnderWay {
    /// It was answered before all of it came: while the rest is passed over, a newcomer may have the place.
    pub(crate) fn is_decided(&self) {
        self.0.rest(Some(Instant::now()));
    }

    /// The connection rests when all of the body was taken from here: how long the caller takes to read the rest is its own affair.
    pub(crate) fn until_taken(self, body: Body) -> Body {
        Body::new(Answering { body, _under_way: self })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.rest(Some(Instant::now()));
    }
}

/// The body of an answer, and what is held until it was taken.
struct Answering {
    body: Body,
    _under_way: UnderWay,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
