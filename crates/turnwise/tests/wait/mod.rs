//! Waiting for something to happen, and not for ever.

#![allow(dead_code, reason = "each test file uses its part")]

use std::{future::Future, time::Duration};

/// Long enough for any machine; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("did not happen in time")
}

/// What `look` finds, once it does.
pub(crate) async fn found<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("did not happen: {what}"))
}

pub(crate) async fn until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    found(what, async || met().await.then_some(())).await;
}
