//! A panic in a control loop is contained: the loop begins anew, no end is lost, and the node does not dispatch for a while.

use std::{any::Any, panic::AssertUnwindSafe, sync::Mutex, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;
use turnwise_core::lead::Panics;

use crate::{
    backoff::Backoff,
    event::{Event, Hub, PanicEvent},
    life::Life,
    lock::locked,
    logs::Kind,
    panics,
    this_node::ThisNode,
};

/// Panics of one loop after the life is over; then the node goes without what the loop still had to do.
const LAST_TRIES: u32 = 5;

/// Whether this node may offer to dispatch, as far as panics of its control loops go.
#[derive(Debug, Default)]
pub(crate) struct HoldOff(Mutex<Panicked>);

#[derive(Debug, Default)]
struct Panicked {
    panics: Panics,
    last: Option<Instant>,
    /// The store has not received a beat yet that does not ask for the lead. Before that the lead must not be renewed: what the
    /// last term had in flight is forgotten here, and can still be written under its epoch.
    unheard: bool,
}

impl HoldOff {
    pub(crate) fn holds(&self) -> bool {
        let held = locked(&self.0);
        held.unheard || held.last.is_some_and(|last| last.elapsed() < held.panics.hold_off())
    }

    /// How long from now it holds, at least.
    pub(crate) fn left(&self) -> Duration {
        let held = locked(&self.0);
        held.last.map_or(Duration::ZERO, |last| held.panics.hold_off().saturating_sub(last.elapsed()))
    }

    fn one_more(&self) -> Duration {
        let mut held = locked(&self.0);
        held.panics = held.panics.one_more(held.last.map(|last| last.elapsed()));
        held.last = Some(Instant::now());
        held.unheard = true;
        held.panics.hold_off()
    }

    /// The store has answered a beat that did not ask for the lead. Returns whether it is the first since a panic.
    pub(crate) fn stood_down(&self) -> bool {
        std::mem::take(&mut locked(&self.0).unheard)
    }
}

/// What became of a future that panicked.
pub(crate) type Caught<T> = Result<T, Box<dyn Any + Send>>;

pub(crate) async fn caught<T>(what: impl Future<Output = T>) -> Caught<T> {
    AssertUnwindSafe(what).catch_unwind().await
}

/// Runs a loop to its end, anew after each panic.
pub(crate) async fn contained<F: Future<Output = ()>>(life: &Life, part: &'static str, run: impl Fn() -> F) {
    let mut backoff = Backoff::default();
    let mut last_tries = 0;
    while let Err(panic) = caught(run()).await {
        panicked(life, part, &*panic);
        if life.over.is_up() {
            last_tries += 1;
            if last_tries >= LAST_TRIES {
                tracing::error!(part, "giving up: the node is over, and a control loop cannot come to its end");
                return;
            }
        }
        backoff.wait(&life.node.chance).await;
    }
}

/// Reports that a loop panicked, and has this node give up the lead.
pub(crate) fn panicked(life: &Life, part: &'static str, panic: &(dyn Any + Send)) {
    say(&life.node, part, panic);
    // The next beat gives up the lead; it is sent at once.
    life.bell.ring_lead();
    life.term.wake();
}

/// As [`panicked`], for a node that is not in the fleet. Returns the panic's text and place.
pub(crate) fn say(node: &ThisNode, part: &'static str, panic: &(dyn Any + Send)) -> String {
    let error = text_of(panic);
    let hold_off = node.hold_off.one_more();
    tracing::error!(
        part,
        error,
        ?hold_off,
        "a control loop panicked; it goes on, and this node does not dispatch meanwhile"
    );
    let hub: &Hub = &node.hub;
    hub.tell(Event::Panicked(PanicEvent { part, error: error.clone(), hold_off }));
    error
}

/// Reports a panic in what the dispatcher does besides, such as counting: dispatching goes on without it. It may come again and
/// again, because of what is stored.
pub(crate) fn panicked_aside(node: &ThisNode, part: &'static str, panic: &(dyn Any + Send)) {
    let error = text_of(panic);
    if node.logs.may(Kind::Aside) {
        tracing::error!(part, error, "it panicked; this node goes on dispatching without it, and tries it again later");
    }
    node.hub.tell(Event::Panicked(PanicEvent { part, error, hold_off: Duration::ZERO }));
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let (text, place) = panics::told(panic);
    match place {
        Some(place) => format!("{text} (at {place})"),
        None => text,
    }
}
