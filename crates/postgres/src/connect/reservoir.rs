//! The few connections of a handle, shared by all its purposes.
//!
//! A connection changes its purpose by changing its settings, which costs a round trip; so one that last served the same
//! purpose is preferred. `LentOut::leaves_room_for` says how many a purpose may have: none can keep all of them.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool_postgres::ClientWrapper;
use tokio::sync::oneshot;
use turnwise_store::{Result, StoreError};

use super::{Address, CONNECT_TIMEOUT, Purpose, has_no_more, spawned};
use crate::{
    errors::{failed, refused_or},
    session::{Answer, Begin, Session, Transaction, Wire},
};

/// For how long, after the server refused one more connection, it is assumed to have none.
const BELIEVED: Duration = Duration::from_secs(60);

/// The pause before a handle without a connection asks again for one that another handle of its process gives up.
const GIVEN_UP: Duration = Duration::from_millis(50);

/// How many connections this process may have, over all its handles.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    most: usize,
    open: AtomicUsize,
    /// What the server was found to allow, and when.
    found: Mutex<Option<(usize, Instant)>>,
    /// Where they are.
    reservoirs: Mutex<Vec<Weak<Reservoir>>>,
}

/// Which of a process's handles it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Of the control loops: one connection of the budget listens for them.
    Control,
    /// Of everything else.
    Callers,
}

impl Budget {
    /// At least one connection for each share, and one that listens.
    pub(crate) const LEAST: usize = 3;

    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(Self::LEAST), ..Self::default() }
    }

    fn allowed(&self) -> usize {
        let found = *self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.filter(|(_, when)| when.elapsed() < BELIEVED).map_or(self.most, |(allowed, _)| allowed.min(self.most))
    }

    /// How many connections a handle may have, the listening one aside.
    fn of(&self, share: Share) -> usize {
        split(self.allowed(), share)
    }

    /// The server refused one more than are open. Those that a handle has beyond its share of these are closed, now or when they are given
    /// back.
    fn is_spent(&self, error: &tokio_postgres::Error) {
        self.go_on_with(self.open.load(Ordering::Relaxed), error);
        self.close_what_is_too_much();
    }

    /// The server refused one that is not of these, and that is to have a place of theirs: one that is idle is closed, now or when it
    /// is given back. The last few stay.
    pub(crate) fn give_one_up(&self, error: &tokio_postgres::Error) {
        self.go_on_with(self.open.load(Ordering::Relaxed).saturating_sub(1), error);
        self.close_what_is_too_much();
    }

    fn close_what_is_too_much(&self) {
        let mut reservoirs = self.reservoirs.lock().unwrap_or_else(PoisonError::into_inner);
        reservoirs.retain(|one| one.strong_count() > 0);
        let there: Vec<_> = reservoirs.iter().filter_map(Weak::upgrade).collect();
        drop(reservoirs);
        there.iter().for_each(|reservoir| reservoir.close_what_is_too_much());
    }

    fn go_on_with(&self, open: usize, error: &tokio_postgres::Error) {
        let open = open.max(Self::LEAST);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.is_some_and(|(allowed, when)| allowed <= open && when.elapsed() < BELIEVED);
        if !known {
            *found = Some((open, Instant::now()));
            tracing::warn!(
                "the server has no more connections for this process ({}); going on with {open} of {}. Raise the limit \
                 there, or set connections = {open}",
                crate::errors::causes(error),
                self.most
            );
        }
    }
}

/// Five ninths of what does not listen, rounded up, are the control loops'; at least one is the callers'.
fn split(allowed: usize, share: Share) -> usize {
    let shared = allowed.max(Budget::LEAST) - 1;
    let control = (shared * 5).div_ceil(9).min(shared - 1);
    match share {
        Share::Control => control,
        Share::Callers => shared - control,
    }
}

/// A connection that is open, counted.
pub(crate) struct Counted(Arc<Budget>);

impl Counted {
    pub(crate) fn one(budget: &Arc<Budget>) -> Self {
        budget.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(budget))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connections of one handle. They live on the runtime that first asked for them.
pub(crate) struct Reservoir {
    address: Address,
    budget: Arc<Budget>,
    share: Share,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one that was used last is at the end.
    idle: Vec<Open>,
    open: usize,
    lent: LentOut,
    /// In the order they came.
    waiting: VecDeque<(Purpose, oneshot::Sender<Permit>)>,
}

struct Open {
    client: ClientWrapper,
    /// The purpose whose settings it has, where that is known.
    purpose: Option<Purpose>,
    _counted: Counted,
}

/// How many connections each purpose has now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LentOut {
    node: usize,
    /// Assignments and what else the dispatcher does.
    dispatch: usize,
    settle: usize,
    submit: usize,
    /// What may take long: unique keys wait for other transactions, people read much.
    slow: usize,
    /// Whether a node lives on this handle.
    control: bool,
}

impl LentOut {
    fn of(&mut self, purpose: Purpose) -> &mut usize {
        match purpose {
            Purpose::Node => &mut self.node,
            Purpose::Assign | Purpose::Dispatch => &mut self.dispatch,
            Purpose::Settle => &mut self.settle,
            Purpose::Submit => &mut self.submit,
            _ => &mut self.slow,
        }
    }

    /// Whether one more may go to `purpose`, of `size`.
    ///
    /// Where a node lives, one connection is kept for its beats and mail, and one more for the dispatcher: neither submits nor
    /// settles that wait for locked rows can take them.
    fn leaves_room_for(&self, purpose: Purpose, size: usize) -> bool {
        let kept = usize::from(self.control);
        let others = self.submit + self.slow;
        let but_node = self.dispatch + self.settle + others;
        let half = (size / 2).max(1);
        let all_but = |kept: usize| size.saturating_sub(kept).max(1);
        match purpose {
            Purpose::Node => self.node + but_node < size,
            _ if but_node >= all_but(kept) => false,
            Purpose::Assign | Purpose::Dispatch => true,
            Purpose::Settle => self.settle < half,
            Purpose::Submit => others < all_but(2 * kept),
            _ => self.slow < half && others < all_but(2 * kept),
        }
    }
}

/// Beats first, then what the fleet waits for.
fn urgency(purpose: Purpose) -> u8 {
    match purpose {
        Purpose::Node => 0,
        Purpose::Assign | Purpose::Dispatch => 1,
        Purpose::Settle => 2,
        _ => 3,
    }
}

/// A place among those that are lent, with the connection that goes with it or the right to open one.
pub(crate) struct Permit {
    reservoir: Arc<Reservoir>,
    purpose: Purpose,
    /// `None`: one is to be opened.
    open: Option<Open>,
    /// Whether it has been given back.
    over: bool,
}

impl Reservoir {
    pub(crate) fn new(address: Address, budget: Arc<Budget>, share: Share) -> Arc<Self> {
        let reservoir = Arc::new(Self { address, budget, share, state: Mutex::default() });
        let mut all = reservoir.budget.reservoirs.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&reservoir));
        drop(all);
        reservoir
    }

    fn close_what_is_too_much(self: &Arc<Self>) {
        let unwanted = self.serve(&mut self.state());
        drop(unwanted);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection with the settings of `purpose`.
    pub(crate) async fn lend(self: &Arc<Self>, purpose: Purpose) -> Result<Lent> {
        let what = "connect to the database";
        let begun = Instant::now();
        loop {
            let mut place = self.place(purpose, begun).await?;
            // One that was closed meanwhile is replaced.
            if let Some(open) = place.open.take().filter(|open| !open.client.is_closed()) {
                return Lent { place, open: Some(open) }.made_ready().await;
            }
            let counted = Counted::one(&self.budget);
            match self.address.connect(purpose).await {
                Ok((client, connection)) => {
                    let client = ClientWrapper::new(client, spawned(connection));
                    let open = Open { client, purpose: Some(purpose), _counted: counted };
                    return Ok(Lent { place, open: Some(open) });
                }
                Err(error) if has_no_more(&error) => {
                    drop(counted);
                    self.budget.is_spent(&error);
                    let others = {
                        let mut state = self.state();
                        place.leave(&mut state, None);
                        state.open
                    };
                    // The open connections must do. If there are none, the caller gets the error.
                    let none = others == 0 && self.budget.open.load(Ordering::Relaxed) == 0;
                    if none || begun.elapsed() > CONNECT_TIMEOUT {
                        return Err(refused_or(error, "the server has no connection left for this process"));
                    }
                    if others == 0 {
                        // Another handle of this process has them all, and gives up what is beyond its share.
                        tokio::time::sleep(GIVEN_UP).await;
                    }
                }
                Err(error) => return Err(refused_or(error, what)),
            }
        }
    }

    async fn place(self: &Arc<Self>, purpose: Purpose, begun: Instant) -> Result<Permit> {
        let waiting = {
            let mut state = self.state();
            state.lent.control |= purpose == Purpose::Node;
            let size = self.budget.of(self.share);
            if let Some(place) = self.take(&mut state, purpose, size) {
                return Ok(place);
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((purpose, sender));
            receiver
        };
        let left = CONNECT_TIMEOUT.saturating_sub(begun.elapsed());
        match tokio::time::timeout(left, waiting).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(StoreError::transient(
                "connect to the database",
                format!("all connections were in use for {} s; is the database overloaded?", CONNECT_TIMEOUT.as_secs()),
            )),
        }
    }

    /// A place for `purpose`, if there is room.
    fn take(self: &Arc<Self>, state: &mut State, purpose: Purpose, size: usize) -> Option<Permit> {
        if !state.lent.leaves_room_for(purpose, size) {
            return None;
        }
        let same = |open: &Open| open.purpose == Some(purpose);
        let at =
            state.idle.iter().rposition(same).or_else(|| (state.open >= size && !state.idle.is_empty()).then_some(0));
        let open = at.map(|at| state.idle.remove(at));
        if open.is_none() {
            if state.open >= size {
                return None;
            }
            state.open += 1;
        }
        *state.lent.of(purpose) += 1;
        Some(Permit { reservoir: Arc::clone(self), purpose, open, over: false })
    }

    /// Gives free places to waiting callers: the most urgent first, then in the order they came.
    fn serve(self: &Arc<Self>, state: &mut State) -> Vec<Permit> {
        let size = self.budget.of(self.share);
        // The server allows fewer than are open.
        while state.open > size && !state.idle.is_empty() {
            state.idle.remove(0);
            state.open -= 1;
        }
        let mut unwanted = Vec::new();
        loop {
            let fits = |(_, (purpose, _)): &(usize, &(Purpose, _))| state.lent.leaves_room_for(*purpose, size);
            let next = state.waiting.iter().enumerate().filter(fits).min_by_key(|(_, (purpose, _))| urgency(*purpose));
            let Some((at, (purpose, _))) = next else { return unwanted };
            let purpose = *purpose;
            let Some(place) = self.take(state, purpose, size) else { return unwanted };
            let Some((_, sender)) = state.waiting.remove(at) else { return unwanted };
            if let Err(place) = sender.send(place) {
                // The caller has gone away; the place is freed once the state is unlocked.
                unwanted.push(place);
            }
        }
    }
}

impl Permit {
    /// Ends it; `open` is for the next caller.
    fn leave(&mut self, state: &mut State, open: Option<Open>) {
        self.over = true;
        *state.lent.of(self.purpose) -= 1;
        match open.filter(|open| !open.client.is_closed()) {
            Some(open) => state.idle.push(open),
            None => state.open -= 1,
        }
    }

    fn give_back(&mut self, open: Option<Open>) {
        let reservoir = Arc::clone(&self.reservoir);
        let unwanted = {
            let mut state = reservoir.state();
            self.leave(&mut state, open);
            reservoir.serve(&mut state)
        };
        drop(unwanted);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.over {
            let open = self.open.take();
            self.give_back(open);
        }
    }
}

/// A connection with a statement cache, until it is dropped.
pub(crate) struct Lent {
    place: Permit,
    /// `None` once it was given back.
    open: Option<Open>,
}

impl Lent {
    /// Changes the settings that differ from those of its last purpose.
    async fn made_ready(mut self) -> Result<Self> {
        let purpose = self.place.purpose;
        let reservoir = Arc::clone(&self.place.reservoir);
        let open = self.open.as_mut().expect("it is there until the drop");
        // Behind a pooler the settings go along with each transaction.
        if reservoir.address.pooled() {
            return Ok(self);
        }
        // Until all of them are in force it is not known which are: this may be dropped on the way.
        let before = open.purpose.take();
        let sets = purpose.sets(before);
        if !sets.is_empty() {
            open.client.batch_execute(&sets).await.map_err(failed("set up a connection"))?;
        }
        open.purpose = Some(purpose);
        Ok(self)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let open = self.open.take();
        self.place.give_back(open);
    }
}

impl Lent {
    /// Whether a pooler is between here and the server.
    pub(crate) fn pooled(&self) -> bool {
        self.place.reservoir.address.pooled()
    }

    fn client(&self) -> &ClientWrapper {
        &self.open.as_ref().expect("it is there until the drop").client
    }
}

impl Session for Lent {
    fn wire(&self) -> Wire<'_> {
        self.place.reservoir.address.wire(self.client(), self.place.purpose)
    }
}

impl Begin for Lent {
    async fn begin(&mut self) -> Answer<Transaction<'_>> {
        let address = &self.place.reservoir.address;
        let client = &mut self.open.as_mut().expect("it is there until the drop").client;
        address.begin(client, self.place.purpose).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERBS: [Purpose; 8] = [
        Purpose::Submit,
        Purpose::Unique,
        Purpose::Assign,
        Purpose::Dispatch,
        Purpose::Node,
        Purpose::Settle,
        Purpose::Note,
        Purpose::People,
    ];

    #[test]
    fn the_shares_and_the_one_that_listens_make_up_the_budget() {
        let shares = |allowed| (split(allowed, Share::Control), split(allowed, Share::Callers));
        assert_eq!([3, 4, 5, 8, 10].map(shares), [(1, 1), (2, 1), (3, 1), (4, 3), (5, 4)]);
        for allowed in 3..200 {
            let (control, callers) = shares(allowed);
            assert!(control >= 1 && callers >= 1 && control + callers + 1 == allowed, "{allowed}");
        }
    }

    /// As many as it can have, of those that are free.
    fn fill(lent: &mut LentOut, purpose: Purpose, size: usize) {
        while lent.leaves_room_for(purpose, size)
            && lent.node + lent.dispatch + lent.settle + lent.submit + lent.slow < size
        {
            *lent.of(purpose) += 1;
        }
    }

    #[test]
    fn no_purpose_takes_what_is_kept_for_beats_and_assignments() {
        for size in 2..20 {
            for first in VERBS {
                for second in VERBS {
                    let mut lent = LentOut { control: true, ..LentOut::default() };
                    for purpose in [first, second].into_iter().filter(|purpose| *purpose != Purpose::Node) {
                        fill(&mut lent, purpose, size);
                    }
                    assert!(
                        lent.leaves_room_for(Purpose::Node, size),
                        "a beat waits at {size} for {first:?}, {second:?}"
                    );
                    let dispatcher =
                        [first, second].iter().any(|one| matches!(one, Purpose::Assign | Purpose::Dispatch));
                    let both_halves = [first, second].contains(&Purpose::Settle);
                    if size >= 3 && !dispatcher && !both_halves {
                        let room = lent.leaves_room_for(Purpose::Assign, size);
                        assert!(room, "an assignment waits at {size} for {first:?}, {second:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_may_take_long_leaves_half_to_submits() {
        for size in 2..20 {
            let mut lent = LentOut::default();
            for purpose in [Purpose::Unique, Purpose::People, Purpose::Note] {
                fill(&mut lent, purpose, size);
            }
            assert_eq!(lent.slow, (size / 2).max(1));
            assert!(lent.leaves_room_for(Purpose::Submit, size), "{size}");
        }
    }
}
