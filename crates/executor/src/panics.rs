//! Where a task panicked. The panic itself is caught where the task runs; only a panic hook gets the place.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook that notes the place and then calls the hook that was there before. Once for the program.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(ToString::to_string));
            before(info);
        }));
    });
}

/// The place of the last panic of this thread. A blocking task panics on another one: its place travels with the panic,
/// see [`carry`].
pub(crate) fn place() -> Option<String> {
    PLACE.take()
}

/// A panic of another thread, with its place.
pub(crate) struct Carried {
    pub(crate) text: String,
    pub(crate) place: Option<String>,
}

/// Runs `work` so that a panic in it takes its place along to the thread that joins.
pub(crate) fn carry<T>(work: impl FnOnce() -> T) -> T {
    match panic::catch_unwind(panic::AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(payload) => {
            let place = place();
            panic::resume_unwind(Box::new(Carried { text: text(&*payload), place }))
        }
    }
}

/// What a panic said, and where.
pub(crate) fn told(payload: &(dyn std::any::Any + Send)) -> (String, Option<String>) {
    match payload.downcast_ref::<Carried>() {
        Some(carried) => (carried.text.clone(), carried.place.clone()),
        None => (text(payload), place()),
    }
}

fn text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no text)").to_owned()
}
