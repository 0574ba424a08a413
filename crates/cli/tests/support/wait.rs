//! Looking again and again until something has happened, and not for ever.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Nothing here takes nearly as long; a test that waits in vain fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `look` until it returns something.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look)
}

pub(crate) fn until_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} for {what} in vain");
        thread::sleep(Duration::from_millis(20));
    }
}
